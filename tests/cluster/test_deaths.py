"""When a broker is known to be dead: by its connection and its port, never by silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.rpc.peer import Listener, Served, a_call, listening, on_loop

from penstock.clock import SteppedClock
from penstock.cluster.core.image import BrokerImage, Image
from penstock.cluster.deaths import AGAIN_AFTER_MS, Deaths
from penstock.later import Later
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.peers import Peers, Purpose

BROKER = 2
EPOCH = 7


class World:
    """This broker, with a connection to another that can be lost."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.dead: list[tuple[int, int]] = []
        self.alive: list[int] = []
        self.image = Image("cluster", 1, [BrokerImage(BROKER, "127.0.0.1", 9092, None, broker_epoch=EPOCH)])
        self.deaths = Deaths(self.image, lambda *found: self.dead.append(found), self.alive.append, self.clock)
        self.peers = Peers(self.clock, lambda *lost: self.deaths.lost(self.peers, *lost))

    async def found(self) -> None:
        while not self.dead:
            await asyncio.sleep(0.001)

    async def connect(self, listener: Listener) -> Served:
        self.peers.register(BROKER, listener.address)
        self.peers.call(BROKER, Purpose.CONTROL, a_call(), 60_000)
        served = await listener.accept()
        await served.request()
        return served


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.peers.close()


@on_loop
async def test_a_broker_whose_port_refuses_is_dead() -> None:
    async with world() as here:
        async with listening() as listener:
            served = await here.connect(listener)
        assert here.image.doubted == set()
        served.reset()
        await here.found()
        assert here.dead == [(BROKER, EPOCH)]
        assert here.image.doubted == {BROKER}, "until the controller has said so"
        here.image.put_brokers([BrokerImage(BROKER, "127.0.0.1", 9092, None, broker_epoch=EPOCH + 1)])
        assert here.image.doubted == set(), "another life"


@on_loop
async def test_a_broker_that_refuses_is_dead_also_if_no_connection_was_up() -> None:
    """Whoever lost its connection before, for another reason, would never hear of it."""
    async with world() as here:
        async with listening() as listener:
            here.peers.register(BROKER, listener.address)
        here.peers.call(BROKER, Purpose.CONTROL, a_call(), 60_000)
        await here.found()
        assert here.dead == [(BROKER, EPOCH)]
        again = here.peers.call(BROKER, Purpose.CONTROL, a_call(), 60_000)
        here.clock.advance(10_000)
        await again.wait()
        assert here.dead == [(BROKER, EPOCH)], "it is known"


class DyingPeers(Peers):
    """The first probes meet a listener that is just going: it takes the connection and breaks it off."""

    breaks_off = 2

    def probe(self, node_id: int) -> Later[Unanswered | None]:
        if self.breaks_off:
            self.breaks_off -= 1
            return Later.of(Unanswered(How.RESET, "broken off"))
        return super().probe(node_id)


@on_loop
async def test_a_listener_that_breaks_off_is_asked_again() -> None:
    async with world() as here:
        here.peers = DyingPeers(here.clock, lambda *lost: here.deaths.lost(here.peers, *lost))
        async with listening() as listener:
            served = await here.connect(listener)
        served.reset()
        while here.peers.breaks_off:
            here.clock.advance(AGAIN_AFTER_MS[1])
            await asyncio.sleep(0.001)
        assert here.dead == []
        here.clock.advance(AGAIN_AFTER_MS[1])
        await here.found()
        assert here.dead == [(BROKER, EPOCH)]


@on_loop
async def test_one_that_the_controller_does_not_find_dead_is_trusted_again() -> None:
    """Something on the way has refused for it."""
    async with world() as here:
        async with listening() as listener:
            served = await here.connect(listener)
        served.reset()
        await here.found()
        here.clock.advance(60_000)
        assert (here.image.doubted, here.deaths.found) == (set(), {})


@on_loop
async def test_a_listener_that_outlives_its_connections_for_a_moment_is_asked_again() -> None:
    """The kernel closes what a killed process had in some order: the port may be the last to go."""
    async with world() as here:
        async with listening() as listener:
            served = await here.connect(listener)
            served.reset()
            await listener.accept()
            while not here.alive:
                await asyncio.sleep(0.001)
            assert here.image.doubted == {BROKER}
        assert here.dead == []
        here.clock.advance(AGAIN_AFTER_MS[0])
        await here.found()
        assert here.dead == [(BROKER, EPOCH)]


@on_loop
async def test_one_that_goes_on_listening_is_not_dead() -> None:
    async with world() as here, listening() as listener:
        served = await here.connect(listener)
        served.reset()
        await listener.accept()
        for pause_ms in AGAIN_AFTER_MS:
            here.clock.advance(pause_ms)
            await listener.accept()
        here.clock.advance(10_000)
        assert (here.alive, here.dead) == ([BROKER], [])
        assert here.image.doubted == set()
        assert listener.accepted.empty()
