"""How much moves when a broker joins and leaves, and how fast under a throttle: processes, hundreds of megabytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.cluster.faults.cluster import HEAL_S, TestCluster, wait_for
from tests.cluster.faults.network import Loopback

MB = 1_000_000
TOPICS, PARTITIONS, REPLICAS = 12, 4, 2
# Of one replica; not alike, as topics are not.
RECORDS_OF = [40 + 10 * number for number in range(TOPICS)]
RECORD_BYTES = 150_000
RATE = 8 * MB
LOOK_S = 0.1


def sizes(cluster: TestCluster) -> dict[int, int]:
    """Bytes of records on the disks."""
    found = {}
    for node_id, broker in cluster.brokers.items():
        logs = Path(broker.data_dir).glob("topics/*/*/*.log")
        found[node_id] = sum(_size(path) for path in logs)
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def fill(cluster: TestCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, "linger.ms": 50})
    for topic, records in enumerate(RECORDS_OF):
        cluster.create_topic(f"topic-{topic}", PARTITIONS, REPLICAS)
        for number in range(records):
            producer.produce(f"topic-{topic}", os.urandom(RECORD_BYTES), partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(60) == 0


def penstock(cluster: TestCluster, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", "cluster", *arguments, "--output", "json"]
    environment = {**os.environ, "PENSTOCK_BOOTSTRAP": cluster.brokers[1].bootstrap}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def carried_out(cluster: TestCluster, *arguments: str) -> tuple[dict[str, Any], dict[int, list[tuple[float, int]]]]:
    """What the command says in the end; meanwhile, what each broker had when."""
    seen: dict[int, list[tuple[float, int]]] = {node_id: [] for node_id in cluster.brokers}
    with penstock(cluster, *arguments) as command:
        while command.poll() is None:
            now_s = time.monotonic()
            for node_id, size in sizes(cluster).items():
                seen[node_id].append((now_s, size))
            time.sleep(LOOK_S)
        assert command.returncode == 0 and command.stdout is not None
        return json.loads(command.stdout.read()), seen


def rate_held(seen: list[tuple[float, int]]) -> float:
    """Bytes a second while it got the middle four fifths."""
    before, after = seen[0][1], seen[-1][1]
    inner = [row for row in seen if before + 0.1 * (after - before) <= row[1] <= before + 0.9 * (after - before)]
    return (inner[-1][1] - inner[0][1]) / (inner[-1][0] - inner[0][0])


@pytest.mark.torture("growing")
def test_a_quarter_moves_to_a_fourth_broker_and_back_at_the_rate_that_was_given(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cluster = TestCluster(Loopback(), tmp_path, brokers=4, zookeepers=1, settings={"log.level": "warning"})
    assert cluster.zookeepers is not None
    cluster.zookeepers.start()
    fourth = cluster.brokers.pop(4)
    try:
        for broker in cluster.brokers.values():
            broker.launch()
        wait_for(lambda: _live(cluster) == 3, "three brokers", HEAL_S)
        fill(cluster)
        before = sizes(cluster)
        cluster.brokers[4] = fourth
        fourth.launch()
        wait_for(lambda: _live(cluster) == 4, "a fourth broker", HEAL_S)

        rebalance = ["rebalance", "--yes", "--throttle", f"{RATE}B/s"]
        grown, seen = carried_out(cluster, *rebalance)
        wait_for(lambda: sum(sizes(cluster).values()) <= 1.01 * sum(before.values()), "what moved is gone", HEAL_S)
        moved, total = sizes(cluster)[4], sum(before.values())
        held = rate_held(seen[4]) / RATE
        record_property("total_mb", round(total / MB, 1))
        record_property("moved_to_the_fourth_mb", round(moved / MB, 1))
        record_property("moved_share", round(moved / total, 4))
        record_property("planned_mb", round(grown["size_bytes"] / MB, 1))
        record_property("throttle_mb_per_s", RATE / MB)
        record_property("joining_rate_over_throttle", round(held, 3))

        drained, seen = carried_out(cluster, "drain", "4", "--yes", "--throttle", f"{RATE}B/s")
        wait_for(lambda: sizes(cluster)[4] == 0, "the fourth is empty", HEAL_S)
        rates = {node_id: rate_held(seen[node_id]) / RATE for node_id in (1, 2, 3)}
        after = sizes(cluster)
        record_property("drained_mb", round(drained["size_bytes"] / MB, 1))
        record_property("draining_rates_over_throttle", {node_id: round(rate, 3) for node_id, rate in rates.items()})
        record_property("bytes_after_over_before", round(sum(after.values()) / total, 4))
    finally:
        cluster.stop()
    assert 0.23 <= moved / total <= 0.27
    assert abs(grown["size_bytes"] - moved) <= 0.01 * total, "nothing else was copied"
    assert 0.8 <= held <= 1.2
    assert all(0.8 <= rate <= 1.2 for rate in rates.values())
    assert abs(sum(after.values()) - total) <= 0.01 * total


def _live(cluster: TestCluster) -> int:
    try:
        return len(cluster.metadata().brokers)
    except ConnectionError:
        return 0
