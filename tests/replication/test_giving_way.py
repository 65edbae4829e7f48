"""What a broker that stops waits for before others lead, and what it does with what producers send meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world

from penstock.cluster.core.image import PartitionImage, TopicImage
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.replication.core.leadership import FollowerFetch
from penstock.replication.partition import Partition
from penstock.replication.waiters import HANDING_OVER
from penstock.storage.log import Appended
from penstock.wire.records import Record, build_batch

TOPIC = "orders"
TIMEOUT_MS = 10_000


async def led(node: World, isr: tuple[int, ...] = (1, 2), min_insync_replicas: int = 1) -> Partition:
    """By broker 1, which is this one."""
    state = PartitionState(1, 0, isr, isr, min_insync_replicas=min_insync_replicas)
    await node.replicas.open_topic(TopicImage(TOPIC, topic_id(TOPIC), (PartitionImage(state, 0),), {}))
    partition = node.replicas.find(TOPIC, 0)
    assert isinstance(partition, Partition)
    return partition


def alive(use: Callable[[World], Awaitable[None]]) -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            await use(node)

    asyncio.run(life())


async def begun(node: World) -> asyncio.Task[None]:
    """As far as it comes by itself."""
    giving = asyncio.create_task(node.replicas.giving_way.begin(TIMEOUT_MS))
    await asyncio.sleep(0)
    return giving


def idempotent(sequence: int) -> memoryview:
    return memoryview(
        build_batch([Record(0, 1, None, b"value")], producer_id=7, producer_epoch=0, base_sequence=sequence)
    )


def replicate(node: World, partition: Partition) -> None:
    partition.on_follower_fetch(FollowerFetch(2, -1, 0, partition.log.end_offset, 0, 0), node.clock.now_ms())


def test_others_lead_when_who_is_in_sync_has_everything_and_producers_wait_for_them() -> None:
    async def use(node: World) -> None:
        partition = await led(node)
        node.write(partition, b"acknowledged with acks=1")
        await node.flusher.drained([partition])
        giving = await begun(node)
        assert not giving.done()
        assert node.write(partition, b"while others are sought") is HANDING_OVER
        replicate(node, partition)
        await giving
        handed_over = partition.hand_over.under_way
        assert handed_over is not None and not handed_over.done
        state = PartitionState(2, 1, (1, 2), (1, 2))
        await node.replicas.open_topic(TopicImage(TOPIC, topic_id(TOPIC), (PartitionImage(state, 1),), {}))
        refused = handed_over.result()
        assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER

    alive(use)


def test_if_nobody_takes_over_producers_are_served_on_in_their_order() -> None:
    async def use(node: World) -> None:
        partition = await led(node)
        await begun(node)
        assert node.replicas.append(partition, idempotent(0)) is HANDING_OVER
        node.replicas.giving_way.end()
        overtaking = node.replicas.append(partition, idempotent(1))
        assert isinstance(overtaking, Refused), "it was taken for the producer's first batch"
        assert isinstance(node.replicas.append(partition, idempotent(0)), Appended)
        assert isinstance(node.replicas.append(partition, idempotent(1)), Appended)

    alive(use)


def test_producers_are_not_kept_waiting_for_long() -> None:
    async def use(node: World) -> None:
        partition = await led(node)
        await begun(node)
        handed_over = partition.hand_over.under_way
        assert handed_over is not None
        node.clock.advance(2_000)
        assert handed_over.done
        assert isinstance(node.write(partition, b"goes on"), Appended)

    alive(use)


@pytest.mark.parametrize(("isr", "min_insync_replicas"), [((1,), 1), ((1, 2), 3)])
def test_what_nobody_else_could_lead_is_served_to_the_end(isr: tuple[int, ...], min_insync_replicas: int) -> None:
    async def use(node: World) -> None:
        partition = await led(node, isr, min_insync_replicas)
        node.write(partition, b"one")
        await (await begun(node))
        assert isinstance(node.write(partition, b"another"), Appended)

    alive(use)
