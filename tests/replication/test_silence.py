"""A leader whose answer is overdue is doubted for a while, and only for that."""

from __future__ import annotations

import asyncio

from tests.rpc.peer import on_loop

from penstock.clock import SteppedClock
from penstock.cluster.core.image import BrokerImage, Image
from penstock.replication.silence import OVERDUE_MS, Silence

LEADER, WAIT_MS = 2, 500


class World:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.image = Image("cluster", 1, [BrokerImage(LEADER, "here", 9092, None, broker_epoch=7)])
        self.silence = Silence(LEADER, self.image, self.clock)

    async def is_doubted_after(self, milliseconds: int) -> bool:
        self.clock.advance(milliseconds)
        await asyncio.sleep(0.005)
        return LEADER in self.image.doubted


@on_loop
async def test_an_overdue_answer_makes_doubt_and_the_answer_ends_it() -> None:
    world = World()
    world.silence.asked(WAIT_MS)
    assert not await world.is_doubted_after(WAIT_MS)
    assert await world.is_doubted_after(OVERDUE_MS)
    world.silence.answered()
    assert not await world.is_doubted_after(10 * OVERDUE_MS)


@on_loop
async def test_each_request_has_its_own_time() -> None:
    world = World()
    for _ in range(20):
        world.silence.asked(WAIT_MS)
        assert not await world.is_doubted_after(WAIT_MS)
        world.silence.answered()
    world.silence.asked(WAIT_MS)
    assert not await world.is_doubted_after(OVERDUE_MS)
    assert await world.is_doubted_after(WAIT_MS)


@on_loop
async def test_a_request_without_an_answer_ends_the_doubt_and_the_next_one_makes_none() -> None:
    """Others may reach the leader."""
    world = World()
    world.silence.asked(WAIT_MS)
    assert await world.is_doubted_after(WAIT_MS + OVERDUE_MS)
    world.silence.over()
    assert not await world.is_doubted_after(0)
    world.silence.asked(WAIT_MS)
    assert not await world.is_doubted_after(10 * OVERDUE_MS)
    world.silence.answered()
    world.silence.asked(WAIT_MS)
    assert await world.is_doubted_after(WAIT_MS + OVERDUE_MS)
