"""Compaction in the background: it leaves the interpreter to others half of the time, and a bug does not end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world
from tests.storage.transaction_model import data_batch

from penstock.cluster.core.image import PartitionImage, TopicImage
from penstock.coordination.paths import PartitionState
from penstock.replication.cleaner import COMPACT_EVERY_MS, LONGEST_PAUSE_MS, Cleaner
from penstock.replication.partition import Partition
from penstock.replication.transaction_markers import append_marker
from penstock.units import DAY_MS, SECOND_MS
from penstock.wire.batch import read_header

CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}
VALUE = b"x" * 400


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def with_old_values(node: World) -> Partition:
    """Several closed segments, each of which is one step."""
    partition = await node.partition(config=CONFIG)
    for _ in range(8):
        node.write(partition, VALUE, VALUE)
    await node.flusher.drained([partition])
    return partition


def compacted(partition: Partition) -> int:
    """How many of its segments."""
    return sum(segment.generation > 0 for segment in partition.log.segments)


async def long_step(node: World, took_ms: int) -> None:
    """The first one: it takes as long as that."""
    node.disk.syncs_may_run.clear()
    # Its task begins to wait.
    await asyncio.sleep(0)
    node.clock.advance(COMPACT_EVERY_MS)
    await eventually(lambda: bool(node.disk.being_synced))
    node.clock.advance(took_ms)
    node.disk.syncs_may_run.set()


def test_after_each_step_it_waits_as_long_as_the_step_took() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition = await with_old_values(node)
            async with Cleaner(node.replicas, node.flusher, node.upkeep, node.clock).running():
                await long_step(node, 8 * SECOND_MS)
                await eventually(lambda: compacted(partition) > 0)
                # More than enough for the next ones, if nothing made them wait.
                await asyncio.sleep(0.2)
                assert compacted(partition) == 1
                node.clock.advance(8 * SECOND_MS)
                await eventually(lambda: compacted(partition) > 4)

    asyncio.run(life())


def test_a_machine_that_slept_during_a_step_does_not_make_it_wait_for_long() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition = await with_old_values(node)
            async with Cleaner(node.replicas, node.flusher, node.upkeep, node.clock).running():
                await long_step(node, DAY_MS)
                await eventually(lambda: compacted(partition) > 0)
                node.clock.advance(LONGEST_PAUSE_MS)
                await eventually(lambda: compacted(partition) > 4)

    asyncio.run(life())


@pytest.mark.parametrize(("replicas", "is_kept"), [((1,), False), ((1, 2), True)])
def test_while_a_replica_is_out_of_the_isr_it_drops_no_marker(replicas: tuple[int, ...], is_kept: bool) -> None:
    """Nothing else may be left of the transaction here, and something there, which only the marker ends."""

    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            state = PartitionState(leader=1, leader_epoch=0, replicas=replicas, isr=(1,))
            config = {**CONFIG, "delete.retention.ms": "0"}
            image = PartitionImage(state, version=0)
            await node.replicas.open_topic(TopicImage("orders", topic_id("orders"), (image,), config))
            partition = node.replicas.find("orders", 0)
            assert isinstance(partition, Partition)
            node.write(partition, b"first")
            batch = data_batch([(b"key", b"aborted")], 1, 0, 0, is_transactional=True)
            partition.append(batch, read_header(batch), node.clock.now_ms())
            append_marker(node.replicas, partition, 1, 0, 0, commit=False, version=1, now_ms=node.clock.now_ms())
            partition.log.expire_producers(node.clock.now_ms() + DAY_MS, 1)
            async with Cleaner(node.replicas, node.flusher, node.upkeep, node.clock).running():
                for _ in range(8):
                    node.write(partition, VALUE, VALUE)
                    await node.flusher.drained([partition])
                    closed_offset = partition.log.segments[-1].base_offset
                    while partition.log.clean_offset < closed_offset:
                        node.clock.advance(COMPACT_EVERY_MS)
                        await asyncio.sleep(0.001)
            assert bool(partition.log.aborted.rows) is is_kept

    asyncio.run(life())


def test_a_bug_is_reported_and_the_next_round_comes() -> None:
    async def life() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context.get("exception")))
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition = await with_old_values(node)
            async with Cleaner(node.replicas, node.flusher, node.upkeep, node.clock).running():
                bug = RuntimeError("nobody thought of this")
                node.disk.fail("rename", path_part=".log.tmp", bug=bug)
                await asyncio.sleep(0)
                node.clock.advance(COMPACT_EVERY_MS)
                await eventually(lambda: bug in reported)
                node.disk.heal()
                while compacted(partition) < 5:
                    node.clock.advance(COMPACT_EVERY_MS)
                    await asyncio.sleep(0.001)

    asyncio.run(life())
