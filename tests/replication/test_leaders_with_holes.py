"""Power was cut, and who is to lead lacks records in the midst of its log: nothing committed goes, writing goes on."""

from __future__ import annotations

import asyncio
import copy

from tests.replication.brokers import DATA, TOPIC, Cluster, cluster_of, led_by

from penstock.config.log import LogSettings
from penstock.storage.holes import first_fresh_hole, first_hole

# Too large for the journal.
VALUE = bytes(100_000)
SEGMENT = f"{DATA}/topics/{TOPIC}/partition-0/{0:020d}.log"


async def cut_power(cluster: Cluster, kept: dict[int, int]) -> None:
    """Three records are committed; of four more, which nobody has synced, the first has all but the second of them.

    The others have so many records.
    """
    for _ in range(3):
        assert await cluster[1].write(VALUE).wait() is None
    for broker in cluster.brokers.values():
        broker.disk.syncs_may_run.clear()
    for _ in range(4):
        cluster[1].write(VALUE)
    await cluster.until(lambda: all(each.partition.log.end_offset == 7 for each in cluster.brokers.values()))
    size = cluster[1].partition.log.size_bytes // 7
    left = {node_id: copy.deepcopy(broker.memory) for node_id, broker in cluster.brokers.items()}
    left[1].damage(SEGMENT, 4 * size + 100, b"\x99")
    for node_id, count in kept.items():
        left[node_id].open(SEGMENT).truncate(count * size)
    for node_id, broker in cluster.brokers.items():
        await broker.kill()
        broker.memory = left[node_id]


def test_one_that_nobody_can_replace_leads_without_what_is_behind_the_hole() -> None:
    async def life() -> None:
        async with cluster_of(3) as cluster:
            await cluster.decide(led_by(1, 1, 2, 3, min_isr=2))
            await cut_power(cluster, {2: 3, 3: 4})
            await cluster.elect(1, (1,))
            for broker in cluster.brokers.values():
                await broker.start()
            await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2, 3))
            await cluster.until(lambda: cluster[1].partition.high_watermark == 4)
            assert await cluster[1].write(b"after").wait() is None
            await cluster.until_same(1, 2, 3)

    asyncio.run(life())


def test_one_that_another_can_replace_makes_room_for_it() -> None:
    async def life() -> None:
        async with cluster_of(2) as cluster:
            await cluster.decide(led_by(1, 1, 2))
            await cut_power(cluster, {2: 6})
            await cluster.elect(1, (1, 2))
            await cluster[1].start()
            assert cluster[1].partition.leadership is None
            await cluster[2].start()
            cluster.clock.advance(5_000)
            await cluster.until(lambda: cluster.nodes[0].state.leader == 2)
            await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
            await cluster.until_same(1, 2)
            assert cluster[1].partition.log.end_offset == 6

    asyncio.run(life())


def test_what_a_leader_has_shown_behind_a_hole_it_keeps_when_it_gets_followers() -> None:
    async def life() -> None:
        async with cluster_of(1, log_settings=LogSettings()) as cluster:
            await cluster.decide(led_by(1, 1))
            await cut_power(cluster, {})
            await cluster.elect(1, (1,))
            await cluster[1].start()
            await cluster.until(lambda: cluster[1].partition.high_watermark == 7)
            await cluster[1].kill()
            await cluster.decide(led_by(1, 1, 2, isr=(1,)))
            await cluster.elect(1, (1,))
            await cluster.elect(1, (1,))
            await cluster[1].start()
            await cluster.until(lambda: cluster[1].partition.leadership is not None)
            log = cluster[1].partition.log
            assert (log.end_offset, first_hole(log), first_fresh_hole(log)) == (7, 4, None)

    asyncio.run(life())


def test_a_policy_that_was_changed_since_cuts_off_nothing_that_was_acknowledged() -> None:
    async def life() -> None:
        async with cluster_of(2) as cluster:
            cluster.config = {"flush.policy": "os"}
            await cluster.decide(led_by(1, 1, 2))
            await cut_power(cluster, {2: 3})
            cluster.config = {"flush.policy": "acked"}
            await cluster.elect(1, (1,))
            await cluster[1].start()
            await cluster.until(lambda: cluster[1].partition.leadership is not None)
            log = cluster[1].partition.log
            assert (log.end_offset, first_hole(log), first_fresh_hole(log)) == (7, 4, None)

    asyncio.run(life())
