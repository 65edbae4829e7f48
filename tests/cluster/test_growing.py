"""A broker joins and gets its share, is drained and is empty, by `penstock cluster`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from tests.cluster.brokers import WAIT_S, Brokers, cluster_on, created, eventually, short_sessions
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.operator import Operator

PARTITIONS = 9
RECORD_BYTES, RECORDS = 10_000, 20
RATE = 500_000
# What may be saved up, and what one batch may be too large.
SLACK_BYTES = RATE // 5 + 2 * RECORD_BYTES


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with short_sessions() as server, cluster_on(server) as running:
        yield running


def run(brokers: Brokers, *arguments: str) -> Any:
    environment = {"PENSTOCK_BOOTSTRAP": brokers.nodes[2].bootstrap}
    result = CliRunner().invoke(app, ["cluster", *arguments, "--output", "json"], env=environment)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def held(brokers: Brokers) -> dict[int, int]:
    return {row["node_id"]: row["replicas"] for row in run(brokers, "status")["brokers"]}


def timed(brokers: Brokers, *arguments: str) -> tuple[Any, float]:
    began_s = time.monotonic()
    return run(brokers, *arguments), time.monotonic() - began_s


def drained_after_a_slow_beginning(brokers: Brokers) -> Any:
    operator = Operator(brokers.nodes[1].bootstrap)
    with ThreadPoolExecutor(1) as thread:
        draining = thread.submit(run, brokers, "drain", "3", "--yes", "--throttle", "1kiB/s")
        eventually(lambda: operator.ask("status")["status"]["reassignments"] == 3)
        assert not draining.done(), "it would take minutes"
        assert operator.ask("throttle", throttled_rate=0)["done"] == 3
        return draining.result(WAIT_S)


def test_a_broker_that_joins_gets_its_share_and_one_that_is_drained_is_empty(brokers: Brokers) -> None:
    brokers.start(1, 2)
    created(brokers.admin(1), NewTopic("orders", PARTITIONS, 1))
    batches = {"batch.size": RECORD_BYTES, "acks": "all", "log_level": 0}
    producer = Producer({"bootstrap.servers": brokers.nodes[1].bootstrap, **batches})
    for number in range(PARTITIONS * RECORDS):
        producer.produce("orders", b"x" * RECORD_BYTES, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    brokers.start(3)
    eventually(lambda: brokers.seen_by(2)[0] == {1, 2, 3})

    grown, seconds = timed(brokers, "rebalance", "--yes", "--throttle", f"{RATE}B/s")
    assert held(brokers) == {1: 3, 2: 3, 3: 3}
    assert len(grown["moves"]) == 3
    assert grown["size_bytes"] >= 3 * RECORDS * RECORD_BYTES
    assert grown["size_bytes"] <= 1.2 * RATE * seconds + SLACK_BYTES

    drained = drained_after_a_slow_beginning(brokers)
    assert drained["done"]
    assert drained["size_bytes"] == grown["size_bytes"]
    assert held(brokers)[3] == 0
    assert [row["draining"] for row in run(brokers, "status")["brokers"]] == [False, False, True]
    # It gets nothing while it is to stay empty.
    assert run(brokers, "rebalance", "--dry-run")["moves"] == []

    assert run(brokers, "drain", "3", "--cancel") == {"broker": 3, "draining": False, "moves_cancelled": 0}
    assert len(run(brokers, "rebalance", "--dry-run")["moves"]) == 3
    ends = {partition: brokers.partitions(1, "orders")[partition][0] for partition in range(PARTITIONS)}
    assert set(ends.values()) == {1, 2}
