"""Markers that come to a leader: from whom, on which connection, and what becomes of each partition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from msgspec.structs import replace
from tests.cluster.running import cluster
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, world
from tests.storage.transaction_model import data_batch

from penstock.broker.marker_writing import COMMIT_TIMEOUT_MS, MarkerWriting
from penstock.cluster.core.image import BrokerImage, Image
from penstock.cluster.core.messages import MarkerRow, Reply, ReplyRow, WriteMarkers
from penstock.errors import Problem
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import CommitOffsets, OffsetToCommit, TopicOffsets
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.later import Later
from penstock.replication.machines import Ground
from penstock.replication.partition import Partition
from penstock.wire.batch import read_header

COORDINATOR, OTHER, STRANGER = 2, 3, 9
DONE = ReplyRow()


class Leader:
    def __init__(self, node: World, partition: Partition) -> None:
        self.node = node
        self.partition = partition
        image = Image("cluster", 1, [BrokerImage(node_id, "", 0, None) for node_id in (1, COORDINATOR, OTHER)])
        # Nothing here is of groups.
        self.writing = MarkerWriting(node.replicas, cast(Groups, None), image, node.clock)

    def open_transaction(self, sequence: int = 0) -> None:
        batch = data_batch([(b"k", b"v")], 1, 0, sequence, is_transactional=True)
        self.partition.append(batch, read_header(batch), self.node.clock.now_ms())

    @property
    def is_open(self) -> bool:
        return self.partition.log.producer_states.has_open_transaction(1, 0)

    def write(
        self,
        connection: int,
        *,
        sender: int = COORDINATOR,
        topics: tuple[str, ...] = ("orders",),
        leader_epoch: int = 0,
    ) -> Later[Reply]:
        rows = tuple((topic, ((0, leader_epoch),)) for topic in topics)
        return self.writing.write(WriteMarkers(sender, (MarkerRow(1, 0, 0, True, 1, rows),)), connection)


def run(use: Callable[[Leader], Awaitable[None]]) -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            await use(Leader(node, await node.partition()))

    asyncio.run(life())


def test_a_marker_is_answered_when_it_is_committed() -> None:
    async def use(leader: Leader) -> None:
        leader.open_transaction()
        assert (await leader.write(connection=5).wait()).rows == (DONE,)
        assert not leader.is_open
        assert leader.partition.high_watermark == 2

    run(use)


def test_a_late_copy_ends_no_later_transaction() -> None:
    async def use(leader: Leader) -> None:
        leader.open_transaction()
        assert (await leader.write(connection=7).wait()).rows == (DONE,)
        leader.open_transaction(1)
        assert (await leader.write(connection=6).wait()).problem == Problem.TRANSACTION_OVERTAKEN.name
        assert leader.is_open
        assert (await leader.write(connection=6, sender=OTHER).wait()).rows == (DONE,), (
            "each has connections of its own"
        )

    run(use)


def test_a_copy_from_before_another_one_led_ends_no_later_transaction() -> None:
    """That one has written the marker, so this broker has not heard of its sender on a newer connection."""

    async def use(leader: Leader) -> None:
        for leader_epoch, node_id in ((1, OTHER), (2, 1)):
            state = replace(leader.partition.state, leader=node_id, leader_epoch=leader_epoch)
            leader.node.replicas.roles.learn(leader.partition, state, leader_epoch)
        leader.open_transaction()
        assert (await leader.write(connection=7).wait()).rows[0].problem == Problem.NOT_LEADER.name
        assert leader.is_open
        assert (await leader.write(connection=7, leader_epoch=2).wait()).rows == (DONE,)
        assert not leader.is_open

    run(use)


def test_only_brokers_of_the_cluster_write_markers() -> None:
    async def use(leader: Leader) -> None:
        leader.open_transaction()
        assert (await leader.write(connection=5, sender=STRANGER).wait()).problem
        assert leader.is_open

    run(use)


def test_each_partition_has_an_answer_of_its_own_in_their_order() -> None:
    async def use(leader: Leader) -> None:
        leader.open_transaction()
        reply = await leader.write(connection=5, topics=("unknown", "orders", "__transaction_state")).wait()
        assert [row.problem for row in reply.rows] == [Problem.UNKNOWN_TOPIC_OR_PARTITION.name, "", ""]

    run(use)


def test_offsets_that_are_not_committed_in_time_hold_up_nothing_else() -> None:
    """Whoever asked gets to know what the other partitions have: it sends that broker nothing before."""

    async def life() -> None:
        async with cluster(PowerCutDisk()) as running:
            node = running.node
            ground = Ground(node.replicas, running.topics, running.image, node.pool, node.clock)
            groups = Groups(lambda: GroupsMachine(GroupLimits(), ConsumerLimits()), ground)
            writing = MarkerWriting(node.replicas, groups, running.image, node.clock)
            assert await groups.ensure_topic(1) is None
            place = (0, running.partition("__consumer_offsets").leader_epoch)
            message = WriteMarkers(1, (MarkerRow(1, 0, 0, True, 1, (("__consumer_offsets", (place,)),)),))
            assert (await writing.write_here(message).wait()).rows == (DONE,)
            node.disk.hold_syncs_of("/__consumer_offsets")
            offsets = (TopicOffsets("orders", (OffsetToCommit(0, 5),)),)
            groups.submit("group", CommitOffsets("group", offsets), CommitAnswer)
            written = writing.write_here(message)
            node.clock.advance(COMMIT_TIMEOUT_MS // 2)
            assert not written.done
            node.clock.advance(COMMIT_TIMEOUT_MS)
            assert [row.problem for row in (await written.wait()).rows] == [Problem.REQUEST_TIMED_OUT.name]
            node.disk.syncs_may_run.set()
            assert (await writing.write_here(message).wait()).rows == (DONE,)
            await groups.close()

    asyncio.run(life())


def test_a_marker_that_the_log_refuses_is_answered_so() -> None:
    async def use(leader: Leader) -> None:
        batch = data_batch([(b"k", b"v")], 1, 4, 0, is_transactional=True)
        leader.partition.append(batch, read_header(batch), leader.node.clock.now_ms())
        (row,) = (await leader.write(connection=5).wait()).rows
        assert row.problem == Problem.INVALID_PRODUCER_EPOCH.name

    run(use)
