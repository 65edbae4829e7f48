"""Several brokers on one ZooKeeper: who is there, who decides, and what becomes of it when one of them goes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import penstock.testing
from penstock.testing.node import TestNode
from penstock.testing.zookeeper import TestZooKeeper, zookeeper

WAIT_S = 20.0
_chroots = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with zookeeper(settings={"minSessionTimeout": "500"}) as running:
        yield running


class Brokers:
    def __init__(self, stack: ExitStack, coordination: str) -> None:
        self._stack = stack
        self._coordination = coordination
        self.nodes: dict[int, TestNode] = {}
        self._admins: dict[int, AdminClient] = {}

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            settings = {"coordination": self._coordination, "node.id": str(node_id)}
            self.nodes[node_id] = self._stack.enter_context(penstock.testing.node(settings))

    def stop(self, node_id: int) -> None:
        self.nodes.pop(node_id).stop()
        self._admins.pop(node_id, None)

    def admin(self, node_id: int) -> AdminClient:
        """Kept: a client that is dropped ends what it was asked."""
        if node_id not in self._admins:
            self._admins[node_id] = AdminClient({"bootstrap.servers": self.nodes[node_id].bootstrap, "log_level": 0})
        return self._admins[node_id]

    def seen_by(self, node_id: int) -> tuple[set[int], int]:
        found = self.admin(node_id).list_topics(timeout=WAIT_S)
        return set(found.brokers), found.controller_id

    def partitions(self, node_id: int, topic: str) -> dict[int, tuple[int, list[int], set[int]]]:
        """Leader, replicas and ISR, as this broker tells them."""
        found = self.admin(node_id).list_topics(timeout=WAIT_S)
        if topic not in found.topics:
            return {}
        rows = found.topics[topic].partitions.values()
        return {row.id: (row.leader, list(row.replicas), set(row.isrs)) for row in rows}


@pytest.fixture
def brokers(server: TestZooKeeper) -> Iterator[Brokers]:
    with ExitStack() as stack:
        yield Brokers(stack, server.target(f"/brokers/{next(_chroots)}"))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def created(admin: AdminClient, *topics: NewTopic) -> None:
    for future in admin.create_topics(list(topics)).values():
        future.result(WAIT_S)


def test_all_brokers_know_each_other_and_one_decides_for_all(brokers: Brokers) -> None:
    brokers.start(1, 2, 3)
    for node_id in (1, 2, 3):
        eventually(lambda node_id=node_id: brokers.seen_by(node_id) == ({1, 2, 3}, 1))  # type: ignore[misc]
    # Whoever is asked: the controller decides, and all know when it is answered.
    for asked in (3, 1):
        created(brokers.admin(asked), NewTopic(f"by-{asked}", 6, 3))
        rows = brokers.partitions(1, f"by-{asked}")
        assert [len(replicas) for _, replicas, _ in rows.values()] == [3] * 6
        assert {leader for leader, _, _ in rows.values()} == {1, 2, 3}
        assert all(brokers.partitions(node_id, f"by-{asked}") == rows for node_id in (2, 3))
    for future in brokers.admin(2).create_partitions([NewPartitions("by-3", 8)]).values():
        future.result(WAIT_S)
    assert len(brokers.partitions(3, "by-3")) == 8
    for future in brokers.admin(3).delete_topics(["by-3"]).values():
        future.result(WAIT_S)
    assert all(brokers.partitions(node_id, "by-3") == {} for node_id in (1, 2, 3))


def test_a_replication_factor_beyond_the_brokers_is_refused(brokers: Brokers) -> None:
    brokers.start(1, 2)
    (future,) = brokers.admin(2).create_topics([NewTopic("orders", 1, 3)]).values()
    with pytest.raises(Exception, match="there are 2 live brokers"):
        future.result(WAIT_S)


def test_a_broker_that_stops_leads_nothing_and_the_next_controller_goes_on(brokers: Brokers) -> None:
    brokers.start(1, 2, 3)
    created(brokers.admin(1), NewTopic("orders", 6, 3))
    brokers.stop(1)
    eventually(lambda: brokers.seen_by(2)[0] == {2, 3})
    eventually(lambda: brokers.seen_by(3)[1] in (2, 3))
    for node_id in (2, 3):
        rows = brokers.partitions(node_id, "orders").values()
        assert {leader for leader, _, _ in rows} == {2, 3}
        assert all(isr == {2, 3} for _, _, isr in rows)
    created(brokers.admin(3), NewTopic("after", 2, 2))
    assert set(brokers.partitions(2, "after")) == {0, 1}


def test_a_topic_that_is_made_because_it_is_asked_for_is_made_by_the_controller(brokers: Brokers) -> None:
    brokers.start(1, 2)
    eventually(lambda: brokers.seen_by(2) == ({1, 2}, 1))
    found = brokers.admin(2).list_topics("wanted", timeout=WAIT_S)
    assert len(found.topics["wanted"].partitions) == 1
    assert set(brokers.partitions(1, "wanted")) == {0}
