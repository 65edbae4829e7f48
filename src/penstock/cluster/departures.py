"""Brokers that have just gone, of whom clients are told for a moment longer."""

from __future__ import annotations

from functools import partial

from penstock.clock import Clock
from penstock.cluster.core.image import BrokerImage, Image
from penstock.units import SECOND_MS

# By then every client that lost its leader has heard of the next one.
LISTED_MS = 5 * SECOND_MS


class Departures:
    """librdkafka gives up a broker that the answer does not list, and with it, a second long, all that it led: also

    what the same answer says others lead now. So whoever has gone stays on the list until clients have moved.
    """

    def __init__(self, image: Image, clock: Clock) -> None:
        self._image = image
        self._clock = clock
        self._live: dict[int, BrokerImage] = {}

    def brokers_changed(self) -> None:
        live = {node_id: broker for node_id, broker in self._image.brokers.items() if broker.is_live}
        for node_id in live:
            self._image.departed.pop(node_id, None)
        for node_id, broker in self._live.items():
            if node_id not in live:
                self._image.departed[node_id] = broker
                self._clock.call_at(self._clock.now_ms() + LISTED_MS, partial(self._forget, broker))
        self._live = live

    def _forget(self, gone: BrokerImage) -> None:
        if self._image.departed.get(gone.node_id) is gone:
            del self._image.departed[gone.node_id]
