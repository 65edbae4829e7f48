"""`penstock dev-cluster`: a cluster that clients can use, gone without a trace but its data when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.cli.dev_clusters import dev_cluster, free_base_port


def children_of(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_cluster_of_two_replicates_until_it_is_interrupted(tmp_path: Path) -> None:
    base = free_base_port(2)
    arguments = ("--brokers", "2", "--data-dir", str(tmp_path / "data"), "--base-port", str(base))
    with dev_cluster(*arguments) as (process, brokers):
        assert brokers == f"127.0.0.1:{base},127.0.0.1:{base + 1}"
        admin = AdminClient({"bootstrap.servers": brokers})
        admin.create_topics([NewTopic("orders", 2)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": brokers, "acks": "all"})
        producer.produce("orders", b"first")
        assert producer.flush(30) == 0
        partitions = admin.list_topics("orders", timeout=10).topics["orders"].partitions.values()
        assert {partition.leader for partition in partitions} == {1, 2}
        assert all(sorted(partition.isrs) == [1, 2] for partition in partitions)
        # A ZooKeeper and two brokers.
        children = children_of(process.pid)
        assert len(children) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not [child for child in children if os.path.exists(f"/proc/{child}")]
    assert sorted(os.listdir(tmp_path / "data")) == [
        "broker-1",
        "broker-1.log",
        "broker-2",
        "broker-2.log",
        "zookeeper",
    ]


def test_a_setting_that_brokers_refuse_is_told_and_nothing_stays(tmp_path: Path) -> None:
    base = free_base_port(1)
    command = [sys.executable, "-m", "penstock", "dev-cluster", "--brokers", "1", "--base-port", str(base)]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path), "--set", "no.such=1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "broker 1 ended with exit code 2" in done.stderr
    assert "no.such" in (tmp_path / "broker-1.log").read_text()
