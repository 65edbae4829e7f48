"""Topics that come and go while work for their files is under way."""

from __future__ import annotations

import asyncio
from uuid import UUID

from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, values_in, world

from penstock.replication.housekeeping import RETENTION_MS, SWEEP_MS, Housekeeping
from penstock.units import HOUR_MS

CONFIG = {"retention.ms": str(HOUR_MS), "file.delete.delay.ms": "0"}
ANEW = UUID(int=7)


def test_a_deletion_that_was_begun_for_a_topic_does_not_meet_the_files_of_the_next_one_of_its_name() -> None:
    memory = PowerCutDisk()

    async def life() -> None:
        async with (
            asyncio.timeout(WAIT_S),
            world(memory) as node,
            Housekeeping(node.replicas, node.flusher, node.upkeep, node.clock).running(),
        ):
            partition = await node.partition(config=CONFIG)
            node.write(partition, b"old")
            await node.flusher.drained([partition])
            node.disk.removals_may_run.clear()
            node.clock.advance(HOUR_MS + RETENTION_MS + SWEEP_MS)
            while not any(path.endswith(".log") for path in node.disk.being_removed):
                await asyncio.sleep(0.001)

            async def make_anew() -> None:
                await node.replicas.drop_topic("orders")
                again = await node.partition(config=CONFIG, as_id=ANEW)
                node.write(again, b"new")
                await node.flusher.drained([again])

            making = asyncio.create_task(make_anew())
            # More than enough, if nothing made it wait for the deletion.
            await asyncio.wait({making}, timeout=0.2)
            node.disk.removals_may_run.set()
            await making

    async def look() -> None:
        async with world(memory) as node:
            assert values_in(await node.partition(config=CONFIG, as_id=ANEW)) == [b"new"]

    asyncio.run(life())
    asyncio.run(look())
