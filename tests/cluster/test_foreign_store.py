"""A store that is not the cluster's any more, or lacks what was never deleted, costs no data."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.cluster.running import Cluster, alive
from tests.disk.power import PowerCutDisk
from tests.replication.world import DATA

from penstock.config.settings import Settings
from penstock.coordination.interface import Change, Create, Remove, Replace
from penstock.coordination.paths import CLUSTER_ID, CONTROLLER_EPOCH, FORMAT, TOPICS, partition_path, topic_path
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.events import CommitOffsets, OffsetToCommit, TopicOffsets
from penstock.node.machines import machine_factory
from penstock.replication.local_logs import KEPT_MS
from penstock.replication.machines import Ground

ORDERS = (partition_path("orders", 0), topic_path("orders"))


async def change(cluster: Cluster, *changes: tuple[str, bytes | None]) -> None:
    """As an operator's hand may, or another ensemble at the old address: None removes."""

    async def of(path: str, data: bytes | None) -> Change:
        node = await cluster.store.read(path)
        assert node is not None
        return Remove(path, node.version) if data is None else Replace(path, data, node.version)

    await cluster.store.commit([await of(path, data) for path, data in changes])


async def written(cluster: Cluster) -> None:
    await cluster.made("orders")
    cluster.node.write(cluster.partition("orders"), b"acknowledged")
    await cluster.node.flusher.drained([cluster.partition("orders")])


def files(cluster: Cluster, path: str) -> list[str]:
    return cluster.node.disk.list_directory(f"{DATA}/{path}")


@pytest.mark.parametrize(
    ("lost", "word"),
    [
        ([(CLUSTER_ID, b'{"cluster_id":"theirs"}')], "has cluster theirs"),
        ([(FORMAT, b'{"format":7}')], "has format 7"),
        ([(CONTROLLER_EPOCH, b'{"epoch":0}')], "gone back to an earlier state"),
        ([(path, None) for path in (*ORDERS, TOPICS)], "no /topics any more"),
    ],
)
def test_nothing_is_taken_over_from_a_store_that_is_not_the_clusters(
    lost: Sequence[tuple[str, bytes | None]], word: str
) -> None:
    async def use(cluster: Cluster) -> None:
        await written(cluster)
        await change(cluster, *lost)
        loading = cluster.metadata.load()
        while cluster.metadata.refused is None:
            await asyncio.sleep(0.001)
        assert word in cluster.metadata.refused
        assert not loading.done
        assert cluster.names() == ["orders"]
        assert cluster.partition("orders").log.end_offset == 1
        assert files(cluster, "topics") == ["orders"]
        assert files(cluster, "deleted") == []

    alive(PowerCutDisk(), use)


def test_it_goes_on_when_the_store_is_the_clusters_again() -> None:
    async def use(cluster: Cluster) -> None:
        await written(cluster)
        await change(cluster, (CLUSTER_ID, b'{"cluster_id":"theirs"}'))
        loading = cluster.metadata.load()
        while cluster.metadata.refused is None:
            await asyncio.sleep(0.001)
        await change(cluster, (CLUSTER_ID, b'{"cluster_id":"cluster"}'))
        await loading.wait()
        assert cluster.metadata.refused is None

    alive(PowerCutDisk(), use)


def test_what_is_not_there_though_nobody_said_that_it_was_deleted_is_kept_for_a_while() -> None:
    async def use(cluster: Cluster) -> None:
        await written(cluster)
        await change(cluster, *((path, None) for path in ORDERS))
        await cluster.metadata.load().wait()
        assert cluster.names() == []
        assert files(cluster, "topics") == []
        (kept,) = files(cluster, "deleted")
        assert "partition-0" in files(cluster, f"deleted/{kept}/orders")
        cluster.node.replicas.logs.sweep()
        assert files(cluster, "deleted") == [kept]
        cluster.node.clock.advance(KEPT_MS)
        while files(cluster, "deleted"):
            cluster.node.replicas.logs.sweep()
            await asyncio.sleep(0.001)

    alive(PowerCutDisk(), use)


def test_a_topic_of_which_a_node_was_taken_away_is_not_taken_for_deleted() -> None:
    async def use(cluster: Cluster) -> None:
        await written(cluster)
        path = partition_path("orders", 0)
        node = await cluster.store.read(path)
        assert node is not None
        await change(cluster, (path, None))
        assert list(await cluster.metadata.load().wait()) == ["orders"]
        assert (cluster.names(), list(cluster.metadata.failures)) == (["orders"], ["orders"])
        assert cluster.partition("orders").log.end_offset == 1
        assert files(cluster, "topics") == ["orders"]
        await cluster.store.commit([Create(path, node.data)])
        await cluster.metadata.load().wait()
        assert not cluster.metadata.failures

    alive(PowerCutDisk(), use)


def test_offsets_of_a_topic_go_when_it_was_deleted_and_stay_when_it_is_only_not_there() -> None:
    async def use(cluster: Cluster) -> None:
        node = cluster.node
        ground = Ground(node.replicas, cluster.topics, cluster.image, node.pool, node.clock)
        groups = Groups(machine_factory(Settings()), ground)
        cluster.metadata.follow(groups)
        try:
            assert await groups.ensure_topic(1) is None
            await cluster.made("orders")
            await cluster.made("deleted")
            for topic in ("orders", "deleted"):
                wish = CommitOffsets("billing", (TopicOffsets(topic, (OffsetToCommit(0, 7),)),))
                assert isinstance(await groups.submit("billing", wish, CommitAnswer).wait(), CommitAnswer)
            await cluster.topics.delete("deleted")
            await change(cluster, *((path, None) for path in ORDERS))
            await cluster.metadata.load().wait()
            assert "orders" not in cluster.names()
            ((group, topic, offsets),) = groups.committed()
            assert (group, topic, {index: row.offset for index, row in offsets.items()}) == (
                "billing",
                "orders",
                {0: 7},
            )
        finally:
            await groups.close()

    alive(PowerCutDisk(), use)
