"""Usage in a cluster: every broker counts its own, and writes to whichever leads, also when it has handed over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.cluster.brokers import WAIT_S, created, eventually, short_sessions
from tests.node.usage_topic import Event, check_lives, read_events, used

from penstock.testing import TestNode, node
from penstock.testing.zookeeper import TestZooKeeper

QUIET = {"log_level": 0}
PARTITIONS = 6


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with short_sessions() as running:
        yield running


def produce(bootstrap: str, client_id: str, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": client_id, "enable.idempotence": True, "linger.ms": 1, **QUIET}
    )
    for number in range(count):
        producer.produce("orders", str(number), partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def consume(bootstrap: str, client_id: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": "readers", **QUIET})
    consumer.assign([TopicPartition("orders", index, 0) for index in range(PARTITIONS)])
    found = 0
    while found < count:
        found += len(consumer.consume(count - found, WAIT_S))
    consumer.close()


class Metered:
    """Brokers that keep their data when they are stopped."""

    def __init__(self, stack: ExitStack, coordination: str, directory: Path) -> None:
        self._stack = stack
        self._coordination = coordination
        self._directory = directory
        self.nodes: dict[int, TestNode] = {}

    def start(self, node_id: int) -> None:
        settings = {"coordination": self._coordination, "node.id": str(node_id), "usage.emit.interval.ms": "1000"}
        data_dir = str(self._directory / str(node_id))
        self.nodes[node_id] = self._stack.enter_context(node(settings, data_dir=data_dir))

    def stop(self, node_id: int) -> None:
        self.nodes.pop(node_id).stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(running.bootstrap for running in self.nodes.values())

    def events(self) -> list[Event]:
        return read_events(next(iter(self.nodes.values())).bootstrap)

    def settled(self) -> list[Event]:
        """Each once: what a stop did not wait for may have been committed all the same, and be there twice.

        Partitions are read one after another while more is written. So what was found is read again, then with all
        that came before it.
        """
        newest = {event.life: event.value["sequence"] for event in self.events()}
        found = {event.key: event for event in self.events()}
        return [event for event in found.values() if event.value["sequence"] <= newest.get(event.life, -1)]

    def ended(self) -> list[int]:
        """Brokers of which the last event of a life is there."""
        return sorted({event.value["node"] for event in self.events() if event.value["last"]})

    def count(self, tenant: str, api: str) -> int:
        found = used(self.events()).get((tenant, "orders", api))
        return 0 if found is None else found.messages


def test_each_message_is_counted_once_whichever_broker_leads_and_stops(server: TestZooKeeper, tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = Metered(stack, server.target("/usage"), tmp_path)
        for node_id in (1, 2, 3):
            brokers.start(node_id)
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap, **QUIET})
        created(admin, NewTopic("orders", PARTITIONS, 3))
        produce(brokers.bootstrap, "acme.1", 600)
        consume(brokers.bootstrap, "bolt.1", 600)
        eventually(lambda: brokers.count("acme", "Produce") == brokers.count("bolt", "Fetch") == 600)
        check_topic(brokers.bootstrap)
        # It hands over what it leads, so its last event goes to another broker.
        produce(brokers.bootstrap, "acme.2", 60)
        brokers.stop(3)
        # A stop does not wait for long, and the machine may be busy.
        assert brokers.ended() == [3] or (tmp_path / "3" / "usage-kept").exists()
        # Now there are too few replicas for an event to be committed, so it has to wait for the next life.
        produce(brokers.bootstrap, "acme.3", 66)
        brokers.stop(2)
        assert (tmp_path / "2" / "usage-kept").exists()
        brokers.start(2)
        brokers.start(3)
        eventually(lambda: brokers.ended() == [2, 3])
        produce(brokers.bootstrap, "acme.4", 6)
        eventually(lambda: brokers.count("acme", "Produce") == 732)
        lives = check_lives(brokers.settled())
        found = used(event for life in lives for event in life)
    assert found["acme", "orders", "Produce"].messages == 732
    assert found["bolt", "orders", "Fetch"].messages == 600
    assert "__penstock" not in {tenant for tenant, _, _ in found}, "what brokers ask of each other is not usage"


def check_topic(bootstrap: str) -> None:
    with RawConnection(bootstrap.split(",")[0]) as connection:
        topics = {row.name: row for row in connection.ask(requests.metadata()).topics}
    assert topics["__usage"].is_internal and not topics["orders"].is_internal
    assert all(len(row.replica_nodes) == 3 for row in topics["__usage"].partitions)
