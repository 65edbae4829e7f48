"""A leader whose disk fails makes room for one that has everything."""

from __future__ import annotations

import asyncio
import errno

from tests.replication.brokers import cluster_of, led_by

from penstock.errors import Problem, Refused


def test_a_leader_whose_log_fails_makes_room_for_another() -> None:
    async def life() -> None:
        async with cluster_of(3) as cluster:
            await cluster.decide(led_by(1, 1, 2, 3, min_isr=2))
            assert await cluster[1].write(b"before").wait() is None
            cluster[1].disk.fail("sync", errno.EIO, path_part="/partition-0/")
            refused = await cluster[1].write(b"x" * 100_000).wait()
            assert isinstance(refused, Refused) and refused.problem is Problem.STORAGE_FAILED
            await cluster.until(lambda: cluster.nodes[0].state.leader == 2)
            assert cluster.nodes[0].state.isr == (2, 3)
            await cluster.until(lambda: cluster[2].partition.leadership is not None)
            assert await cluster[2].write(b"after").wait() is None
            assert b"before" in cluster[2].values()[0]
            assert cluster[1].partition.leadership is None
            cluster[1].disk.heal()

    asyncio.run(life())


def test_one_that_is_elected_with_a_failed_log_does_not_stay() -> None:
    async def life() -> None:
        async with cluster_of(3) as cluster:
            await cluster.decide(led_by(1, 1, 2, 3))
            cluster[2].disk.fail("sync", errno.EIO, path_part="/partition-0/")
            cluster[1].write(b"x" * 100_000)
            await cluster.until(lambda: cluster[2].partition.log.failure is not None)
            await cluster.elect(2, (2, 3))
            await cluster.until(lambda: cluster.nodes[0].state.leader == 3)
            assert cluster.nodes[0].state.isr == (3,)
            cluster[2].disk.heal()

    asyncio.run(life())


def test_the_last_one_stays_until_there_is_another() -> None:
    async def life() -> None:
        async with cluster_of(2) as cluster:
            cluster[2].cut_off(1)
            await cluster.decide(led_by(1, 1, 2, isr=(1,)))
            cluster[1].disk.fail("sync", errno.EIO, path_part="/partition-0/")
            await cluster[1].write(b"x" * 100_000).wait()
            cluster.clock.advance(5_000)
            await asyncio.sleep(0.05)
            assert cluster.nodes[0].state.leader == 1
            await cluster.decide(led_by(1, 1, 2))
            cluster.clock.advance(5_000)
            await cluster.until(lambda: cluster.nodes[0].state.leader == 2)
            cluster[1].disk.heal()

    asyncio.run(life())
