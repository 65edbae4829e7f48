"""Brokers that have gone stay on the list of clients for a moment."""

from __future__ import annotations

import asyncio

from tests.rpc.peer import on_loop

from penstock.clock import SteppedClock
from penstock.cluster.core.image import BrokerImage, Image
from penstock.cluster.departures import LISTED_MS, Departures

MARGIN_MS = 2_000


class World:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.image = Image("cluster", 1)
        self.departures = Departures(self.image, self.clock)

    def brokers(self, *live: int) -> None:
        """All of three; an unregistered one has no address."""
        self.image.put_brokers(
            BrokerImage(node_id, "here" if node_id in live else "", 9092, None, is_live=node_id in live)
            for node_id in (1, 2, 3)
        )
        self.departures.brokers_changed()

    async def passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        await asyncio.sleep(0.005)

    def listed(self) -> dict[int, str]:
        return {node_id: broker.host for node_id, broker in self.image.departed.items()}


@on_loop
async def test_whoever_goes_is_listed_for_a_moment_where_it_was() -> None:
    world = World()
    world.brokers(1, 2)
    assert world.listed() == {}, "the third was never there"
    world.brokers(1)
    assert world.listed() == {2: "here"}
    await world.passes(LISTED_MS - MARGIN_MS)
    world.brokers(1, 3)
    assert world.listed() == {2: "here"}
    await world.passes(MARGIN_MS)
    assert world.listed() == {}


@on_loop
async def test_whoever_comes_back_and_goes_again_has_its_time_anew() -> None:
    world = World()
    world.brokers(1, 2)
    world.brokers(1)
    await world.passes(LISTED_MS - MARGIN_MS)
    world.brokers(1, 2)
    assert world.listed() == {}
    world.brokers(1)
    await world.passes(MARGIN_MS)
    assert world.listed() == {2: "here"}
    await world.passes(LISTED_MS)
    assert world.listed() == {}
