"""Compaction in the background: it leaves the interpreter to others half of the time, and a bug does not end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, world

from penstock.replication.cleaner import COMPACT_EVERY_MS, LONGEST_PAUSE_MS, Cleaner
from penstock.replication.partition import Partition
from penstock.units import DAY_MS, SECOND_MS

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
