"""Several brokers on one ZooKeeper: who is there, who decides, and what becomes of it when one of them goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic
from tests.bad_input import requests
from tests.cluster.brokers import WAIT_S, Brokers, cluster_on, created, eventually, short_sessions

from penstock.coordination.interface import Remove
from penstock.coordination.paths import registration_path
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.testing.zookeeper import TestZooKeeper


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with short_sessions() as running:
        yield running


@pytest.fixture
def brokers(server: TestZooKeeper) -> Iterator[Brokers]:
    with cluster_on(server) as running:
        yield running


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
    assert {row.node_id for row in brokers.ask(2, requests.metadata()).brokers} == {1, 2, 3}, "for a moment"
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
    (found,) = brokers.ask(2, requests.metadata("wanted", auto_create=True)).topics
    assert (found.error_code, len(found.partitions)) == (0, 1)
    assert set(brokers.partitions(1, "wanted")) == {0}


def test_whoever_is_asked_the_controller_answers(brokers: Brokers) -> None:
    brokers.start(1, 2)
    eventually(lambda: brokers.seen_by(2) == ({1, 2}, 1))
    (row,) = brokers.ask(2, requests.create_topic("orders", 2)).topics
    assert row.error_code == 0, row.error_message
    assert set(brokers.partitions(1, "orders")) == {0, 1}
    (row,) = brokers.ask(2, requests.create_topic("orders", 2)).topics
    assert "exists already" in row.error_message


def test_a_broker_that_is_taken_off_the_list_puts_itself_on_it_again(server: TestZooKeeper, brokers: Brokers) -> None:
    async def remove(path: str) -> None:
        store = await ZooKeeperStore.open(server.settings(brokers.chroot))
        node = await store.read(path)
        assert node is not None
        await store.commit([Remove(path, node.version)])
        while await store.read(path) is None:
            await asyncio.sleep(0.01)
        await store.close()

    brokers.start(1, 2)
    # The controller does not tell who is not there.
    asyncio.run(asyncio.wait_for(remove(registration_path(2)), WAIT_S))
    eventually(lambda: brokers.seen_by(1) == brokers.seen_by(2) == ({1, 2}, 1))
