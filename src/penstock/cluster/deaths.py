"""Evidence that a broker is dead: its end of a connection broke, and nobody listens where it did. Never silence."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.cluster.core.image import Image
from penstock.later import Later
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.peers import Peers, Purpose

logger = logging.getLogger(__name__)


class Deaths:
    """A broker listens before it registers, so one that does not listen is not the one that was registered."""

    def __init__(self, image: Image, when_dead: Callable[[int, int], None], when_alive: Callable[[int], None]) -> None:
        """`when_dead` gets broker and broker epoch; `when_alive`: only the connection is gone."""
        self._image = image
        self._when_dead = when_dead
        self._when_alive = when_alive
        self._probing: set[int] = set()
        # The newest epoch in which each was found dead.
        self.found: dict[int, int] = {}

    def lost(self, peers: Peers, node_id: int, purpose: Purpose, why: Unanswered) -> None:
        broker = self._image.brokers.get(node_id)
        if why.how not in (How.RESET, How.CLOSED) or broker is None or node_id in self._probing:
            return
        broker_epoch = broker.broker_epoch
        self._probing.add(node_id)

        def probed(done: Later[Unanswered | None]) -> None:
            self._probing.discard(node_id)
            outcome = done.result()
            if outcome is None:
                self._when_alive(node_id)
            elif outcome.how is How.REFUSED:
                logger.warning("broker.found.dead", extra={"broker": node_id, "broker_epoch": broker_epoch})
                self.found[node_id] = broker_epoch
                self._when_dead(node_id, broker_epoch)

        peers.probe(node_id).when_done(probed)
