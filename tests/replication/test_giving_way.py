"""What a broker that stops waits for before others lead."""

from __future__ import annotations

import asyncio

from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world

from penstock.cluster.core.image import PartitionImage, TopicImage
from penstock.coordination.paths import PartitionState
from penstock.replication.core.leadership import FollowerFetch
from penstock.replication.partition import Partition

TOPIC = "orders"


async def led(node: World, min_insync_replicas: int) -> Partition:
    """With broker 2 as the only follower, in sync."""
    state = PartitionState(1, 0, (1, 2), (1, 2), min_insync_replicas=min_insync_replicas)
    await node.replicas.open_topic(TopicImage(TOPIC, topic_id(TOPIC), (PartitionImage(state, 0),), {}))
    partition = node.replicas.find(TOPIC, 0)
    assert isinstance(partition, Partition)
    return partition


def test_it_gives_way_when_who_is_in_sync_has_everything_and_takes_nothing_until_others_lead() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition, giving_way = await led(node, min_insync_replicas=1), node.replicas.giving_way
            node.write(partition, b"acknowledged with acks=1")
            await node.flusher.drained([partition])
            giving = asyncio.create_task(giving_way.begin())
            await asyncio.sleep(0)
            under_way = giving_way.under_way
            assert under_way is not None and not giving.done()
            partition.on_follower_fetch(FollowerFetch(2, -1, 0, partition.log.end_offset, 0, 0), node.clock.now_ms())
            await giving
            assert not under_way.done
            giving_way.end()
            assert under_way.done and giving_way.under_way is None

    asyncio.run(life())


def test_what_cannot_be_committed_is_not_waited_for() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            node.write(await led(node, min_insync_replicas=3), b"nobody waits for it")
            giving = asyncio.create_task(node.replicas.giving_way.begin())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert giving.done()

    asyncio.run(life())
