"""Records on several real brokers: with all replicas before they are acknowledged, and there after leaders change."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from tests.cluster.brokers import WAIT_S, Brokers, created, eventually

from penstock.testing.zookeeper import TestZooKeeper, zookeeper

# All brokers share this process with the clients: what takes milliseconds elsewhere may take seconds here.
_PATIENT = {"controlled.shutdown.ms": "60000"}


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with zookeeper(settings={"minSessionTimeout": "500"}) as running:
        yield running


@pytest.fixture(scope="module")
def brokers(server: TestZooKeeper) -> Iterator[Brokers]:
    with ExitStack() as stack:
        three = Brokers(stack, server.target("/replication"))
        three.start(1, 2, 3, **_PATIENT)
        eventually(lambda: all(three.seen_by(node_id)[0] == {1, 2, 3} for node_id in (1, 2, 3)))
        yield three


def bootstrap(brokers: Brokers) -> str:
    return ",".join(node.bootstrap for node in brokers.nodes.values())


def produce(brokers: Brokers, topic: str, values: list[bytes]) -> None:
    """All acknowledged by all in sync."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap(brokers), "acks": "all", "linger.ms": 1})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(WAIT_S) == 0
    assert failed == []


def consume(brokers: Brokers, topic: str, count: int, partitions: int, **config: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap(brokers), "group.id": "readers", "enable.auto.commit": False, **config}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{len(values)} of {count} came"
        assert message.error() is None, message.error()
        values.append(message.value() or b"")
    consumer.close()
    return values


def test_acks_all_with_three_replicas(brokers: Brokers) -> None:
    created(brokers.admin(1), NewTopic("orders", 3, 3))
    values = [b"%d" % number for number in range(500)]
    produce(brokers, "orders", values)
    assert sorted(consume(brokers, "orders", len(values), 3)) == sorted(values)
    assert all(isr == {1, 2, 3} for _, _, isr in brokers.partitions(2, "orders").values())


def test_a_group_commits_and_goes_on(brokers: Brokers) -> None:
    created(brokers.admin(2), NewTopic("grouped", 2, 3))
    produce(brokers, "grouped", [b"%d" % number for number in range(40)])
    config = {
        "bootstrap.servers": bootstrap(brokers),
        "group.id": "workers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    seen: list[bytes] = []
    for _ in range(2):
        consumer = Consumer(config)
        consumer.subscribe(["grouped"])
        for _ in range(20):
            message = consumer.poll(WAIT_S)
            assert message is not None and message.error() is None
            seen.append(message.value() or b"")
            consumer.commit(message=message, asynchronous=False)
        consumer.close()
    assert len(set(seen)) == 40


def test_what_was_acknowledged_is_there_after_its_leader_stopped(brokers: Brokers) -> None:
    created(brokers.admin(1), NewTopic("kept", 3, 3))
    first = [b"first %d" % number for number in range(100)]
    produce(brokers, "kept", first)
    brokers.stop(3)
    eventually(lambda: all(leader in (1, 2) for leader, _, _ in brokers.partitions(1, "kept").values()))
    second = [b"second %d" % number for number in range(100)]
    produce(brokers, "kept", second)
    assert sorted(consume(brokers, "kept", 200, 3)) == sorted(first + second)
    # With an empty disk: it gets everything anew.
    brokers.start(3)
    for topic in ("kept", "__consumer_offsets"):
        eventually(
            lambda topic=topic: all(isr == {1, 2, 3} for _, _, isr in brokers.partitions(1, topic).values())  # type: ignore[misc]
        )


def test_a_leader_that_stops_leaves_nothing_behind_that_it_acknowledged_alone(brokers: Brokers) -> None:
    created(brokers.admin(1), NewTopic("alone", 1, 3))
    acknowledged: list[bytes] = []
    stopped = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": bootstrap(brokers), "acks": 1, "linger.ms": 0})
        numbers = itertools.count()
        while not stopped.is_set():
            for number in itertools.islice(numbers, 20):
                producer.produce("alone", b"%d" % number, on_delivery=note)
            producer.poll(0.001)
        producer.flush(WAIT_S)

    def note(error: object, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value() or b"")

    sending = threading.Thread(target=send)
    sending.start()
    eventually(lambda: len(acknowledged) > 500)
    leader = brokers.partitions(1, "alone")[0][0]
    brokers.stop(leader)
    stopped.set()
    sending.join()
    # When this one is committed, all before it can be read.
    produce(brokers, "alone", [b"last"])
    reader = Consumer({"bootstrap.servers": bootstrap(brokers), "group.id": "readers"})
    _, end = reader.get_watermark_offsets(TopicPartition("alone", 0), timeout=WAIT_S)
    reader.close()
    missing = set(acknowledged) - set(consume(brokers, "alone", end, 1))
    brokers.start(leader, **_PATIENT)
    assert not missing, f"{len(missing)} of {len(acknowledged)}, e.g. {sorted(missing)[:3]!r}"


def test_a_group_goes_on_where_it_was_when_its_coordinator_has_stopped(brokers: Brokers) -> None:
    created(brokers.admin(1), NewTopic("moved", 1, 3))
    produce(brokers, "moved", [b"%d" % number for number in range(20)])
    config = {
        "bootstrap.servers": bootstrap(brokers),
        "group.id": "movers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    seen: list[bytes] = []

    def read(count: int) -> None:
        consumer = Consumer(config)
        consumer.subscribe(["moved"])
        for _ in range(count):
            message = consumer.poll(WAIT_S)
            assert message is not None and message.error() is None
            seen.append(message.value() or b"")
            consumer.commit(message=message, asynchronous=False)
        consumer.close()

    read(10)
    future = brokers.admin(1).describe_consumer_groups(["movers"])["movers"]
    coordinator = future.result().coordinator.id
    brokers.stop(coordinator)
    read(10)
    assert seen == [b"%d" % number for number in range(20)]
