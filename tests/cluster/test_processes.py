"""`penstock serve --processes`: brokers of one host under one parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from tests.cli.dev_clusters import HTTP_DISTANCE, free_base_port
from tests.cluster.faults.cluster import TestCluster

Line = dict[str, Any]


@contextmanager
def two_processes(cluster: TestCluster, data_dir: Path, base_port: int) -> Iterator[subprocess.Popen[str]]:
    assert cluster.zookeepers is not None
    command = [sys.executable, "-m", "penstock", "serve", "--processes", "2", "--node-id", "10"]
    command += ["--listen", f"127.0.0.1:{base_port}", "--http", f"127.0.0.1:{base_port + HTTP_DISTANCE}"]
    command += ["--coordination", cluster.zookeepers.target("/processes"), "--data-dir", str(data_dir)]
    process = subprocess.Popen([*command, "--set", "log.format=json"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process
    finally:
        # The others end with it.
        process.kill()
        process.wait()
        process.stderr.close()


def test_two_brokers_of_one_host_start_and_stop_together_and_one_that_dies_comes_back(
    cluster: TestCluster, tmp_path: Path
) -> None:
    base = free_base_port(2)
    with two_processes(cluster, tmp_path, base) as process:
        assert process.stderr is not None
        lines: Iterator[Line] = map(json.loads, process.stderr)

        def until(event: str) -> Line:
            return next(line for line in lines if line["event"] == event)

        pids = {line["child"]: line["pid"] for line in (until("process.started"), until("process.started"))}
        assert {until("process.ready")["child"] for _ in pids} == {"broker 10", "broker 11"}
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{base}"})
        admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(30)
        found = admin.list_topics("orders", timeout=10)
        assert {broker.id: broker.port for broker in found.brokers.values()} == {10: base, 11: base + 1}
        assert {partition.leader for partition in found.topics["orders"].partitions.values()} == {10, 11}

        os.kill(pids["broker 11"], signal.SIGKILL)
        assert until("process.ended")["code"] == -signal.SIGKILL
        assert until("process.ready")["child"] == "broker 11"

        process.send_signal(signal.SIGTERM)
        assert until("node.stopped")["broker"] == 10
        assert until("node.stopped")["broker"] == 11
        until("processes.stopped")
        assert process.wait(30) == 0
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
