"""What other brokers send is for one broker of one cluster, whoever is at its address now."""

from __future__ import annotations

import pytest
from tests.cluster.running import Cluster, alive
from tests.disk.power import PowerCutDisk

from penstock.cluster.core.delta import BrokerRow, Delta
from penstock.cluster.core.messages import Addressed, Hello, LogEndOf, Push

# Of a controller that has begun much later, if it were this cluster's.
THEIRS = Push(Delta(3, 50, 0, brokers=(BrokerRow(3, "elsewhere", 9092),), broker_epoch=9))


@pytest.mark.parametrize(("cluster_id", "node_id"), [("theirs", 1), ("cluster", 2)])
def test_what_is_for_another_broker_or_cluster_changes_nothing(cluster_id: str, node_id: int) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.made("orders")
        before = cluster.image.brokers
        for message in (THEIRS, Hello(), LogEndOf("orders", 0)):
            reply = await cluster.answering.answer(Addressed(cluster_id, node_id, message)).wait()
            assert reply.problem == "STORE_UNAVAILABLE"
            assert f"not broker {node_id} of cluster {cluster_id}" in reply.text
        assert cluster.image.brokers == before
        assert not (await cluster.answering.answer(Addressed("cluster", 1, Hello())).wait()).problem

    alive(PowerCutDisk(), use)


def test_what_is_for_another_life_of_this_broker_changes_nothing() -> None:
    async def use(cluster: Cluster) -> None:
        before = cluster.image.brokers
        reply = await cluster.answering.answer(Addressed("cluster", 1, THEIRS)).wait()
        assert reply.problem == "STALE_BROKER_EPOCH"
        assert cluster.image.brokers == before
        own = Push(Delta(2, 1, 0, brokers=(BrokerRow(1, "here", 9092),), broker_epoch=cluster.member.broker_epoch))
        assert not (await cluster.answering.answer(Addressed("cluster", 1, own)).wait()).problem

    alive(PowerCutDisk(), use)
