"""Spark's own Kafka connector against Penstock, where Maven can fetch it. Run by `make torture spark-connector`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from benchmarks.peers.broker import PeerUnavailable
from benchmarks.spark.connector import Connector
from confluent_kafka import Producer
from tests.spark.both_formats import FORMATS, WRITTEN_ROWS, read_by_both, write_by_both
from tests.spark.checksums import checksum_in
from tests.spark.consumed import consumed, lag
from tests.spark.driver import Driver
from tests.spark.kafka_job import run_job
from tests.spark.orders import PARTITIONS, Orders
from tests.spark.reading import WAIT_S, transaction
from tests.spark.round_trip import checksum_read, round_trip
from tests.spark.test_round_trip import MILLION, check, new_trip
from tests.spark.written import cut, new_topic, produce, producer

from penstock.testing import TestNode
from penstock.units import MINUTE_MS

pytestmark = pytest.mark.torture("spark-connector")

Told = Callable[[str, object], None]


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    try:
        return Connector().prepare()
    except PeerUnavailable as problem:
        pytest.skip(str(problem))


@pytest.fixture
def driver(jars: list[Path], tmp_path: Path, record_property: Told) -> Driver:
    record_property("jars", [jar.stem for jar in jars])
    return Driver("local[2]", tmp_path / "driver", {"spark.jars": ",".join(map(str, jars))})


def test_the_job_as_it_was_written_and_by_another_name(
    driver: Driver, spark_node: TestNode, tmp_path: Path, record_property: Told
) -> None:
    """On one checkpoint: it is started again as it was, and then goes on with the other source and sink."""
    orders = Orders(spark_node.bootstrap, tmp_path)
    for format in ("kafka", "kafka", "penstock"):
        orders.place(500)
        driver.run(run_job, format, orders.topics, orders.checkpoints)
        orders.check()
    topics = orders.topics
    assert lag(topics.servers, topics.group, topics.orders, PARTITIONS) == 0
    record_property("orders", 1500)


def test_a_million_rows_by_the_connector(
    driver: Driver, spark_node: TestNode, tmp_path: Path, record_property: Told
) -> None:
    trip = new_trip(spark_node, tmp_path, MILLION, batches=4, format="kafka")
    seen = driver.run(round_trip, trip)
    check(trip, seen)
    for name, value in asdict(seen).items():
        record_property(name, value)


def test_what_was_written_exactly_once_is_read_by_the_connector(
    driver: Driver, spark_node: TestNode, tmp_path: Path
) -> None:
    trip = new_trip(spark_node, tmp_path, 20_000, batches=2)
    check(trip, driver.run(round_trip, trip))
    read = driver.run(checksum_read, replace(trip, format="kafka"), trip.copy)
    assert read == checksum_in(trip.bootstrap, trip.copy, 12, times=False)


def test_both_write_the_same(driver: Driver, spark_node: TestNode) -> None:
    topics = {format: new_topic(spark_node.bootstrap, 12) for format in FORMATS}
    driver.run(write_by_both, spark_node.bootstrap, topics)
    theirs, ours = (
        Counter(
            (message.partition(), message.key(), message.value(), tuple(message.headers() or ()))
            for message in consumed(spark_node.bootstrap, topics[format], 12)
        )
        for format in FORMATS
    )
    assert theirs == ours
    assert theirs.total() == WRITTEN_ROWS


class Case(NamedTuple):
    """How much is read, and by how many tasks."""

    rows: int
    tasks: int
    options: dict[str, Any]


def test_both_read_the_same(driver: Driver, spark_node: TestNode, record_property: Told) -> None:
    """Two partitions with a record each millisecond, a hundred in each."""
    begin_ms = spark_node.now_ms() - 10_000
    topic = new_topic(spark_node.bootstrap, 2, f"same-{uuid4().hex[:8]}")
    client = producer(spark_node.bootstrap)
    for number in range(200):
        client.produce(topic, b"%d" % number, None, number % 2, timestamp=begin_ms + number // 2, headers=[("h", b"v")])
    assert client.flush(WAIT_S) == 0
    middle_ms, late_ms = begin_ms + 50, spark_node.now_ms() + 60_000

    def at(first: int, second: int) -> str:
        return json.dumps({topic: {"0": first, "1": second}})

    named = {"subscribe": topic}
    cases = [
        Case(200, 2, named),
        Case(200, 2, {"subscribePattern": f"^{topic}$"}),
        Case(100, 1, {"assign": json.dumps({topic: [1]})}),
        Case(200, 10, {**named, "minPartitions": "9"}),
        Case(100, 2, {**named, "startingTimestamp": str(middle_ms)}),
        Case(100, 2, {**named, "endingTimestamp": str(middle_ms)}),
        Case(110, 2, {**named, "startingOffsetsByTimestamp": at(middle_ms, middle_ms - 10)}),
        Case(110, 2, {**named, "endingOffsetsByTimestamp": at(middle_ms, middle_ms + 10)}),
        Case(200, 2, {**named, "endingTimestamp": str(late_ms)}),
        Case(0, 0, {**named, "startingTimestamp": str(late_ms), "startingOffsetsByTimestampStrategy": "latest"}),
        Case(30, 2, {**named, "startingOffsets": at(-2, 90), "endingOffsets": at(20, -1)}),
    ]
    options = [{"kafka.bootstrap.servers": spark_node.bootstrap, **case.options} for case in cases]
    for case, (theirs, ours) in zip(cases, driver.run(read_by_both, options), strict=True):
        assert ours == theirs, case
        assert (len(theirs.rows), theirs.tasks) == (case.rows, case.tasks), case
    record_property("cases", len(cases))


def test_both_read_what_is_committed(driver: Driver, spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap)
    transaction(spark_node, topic, [b"first"] * 20, commit=True)
    transaction(spark_node, topic, [b"aborted"] * 30, commit=False)
    produce(producer(spark_node.bootstrap), topic, [b"plain"] * 5)
    transaction(spark_node, topic, [b"second"] * 20, commit=True)
    ended = new_topic(spark_node.bootstrap)
    transaction(spark_node, ended, [b"aborted"] * 30, commit=False)
    with open_transaction(spark_node.bootstrap, topic, [b"open"] * 10):
        levels = ("read_committed", "read_uncommitted")
        servers = {"kafka.bootstrap.servers": spark_node.bootstrap, "minPartitions": "3"}
        options = [
            {**servers, "subscribe": name, "kafka.isolation.level": level}
            for name in (topic, ended)
            for level in levels
        ]
        reads = driver.run(read_by_both, options)
    for theirs, ours in reads:
        assert ours.rows == theirs.rows
    found = [Counter(row[6] for row in theirs.rows) for theirs, _ in reads]
    committed = {b"first": 20, b"plain": 5, b"second": 20}
    assert found == [committed, {**committed, b"aborted": 30, b"open": 10}, {}, {b"aborted": 30}]


def test_both_go_on_behind_what_is_gone(driver: Driver, spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap)
    produce(producer(spark_node.bootstrap), topic, [b"%d" % number for number in range(100)])
    cut(spark_node.bootstrap, topic, 40)
    start = json.dumps({topic: {"0": 10}})
    options = {"kafka.bootstrap.servers": spark_node.bootstrap, "subscribe": topic, "failOnDataLoss": "false"}
    ((theirs, ours),) = driver.run(read_by_both, [{**options, "startingOffsets": start}])
    assert [row[2] for row in theirs.rows] == list(range(40, 100))
    assert ours.rows == theirs.rows


@contextmanager
def open_transaction(bootstrap: str, topic: str, values: list[bytes]) -> Iterator[None]:
    # As long as a session takes to start on a busy machine, and longer.
    patient = {"transaction.timeout.ms": 15 * MINUTE_MS}
    client = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid4().hex, **patient})
    client.init_transactions(WAIT_S)
    client.begin_transaction()
    for value in values:
        client.produce(topic, value, partition=0)
    client.flush(WAIT_S)
    yield
    client.abort_transaction(WAIT_S)
