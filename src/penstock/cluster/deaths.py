"""Evidence that a broker is dead: its end of a connection broke, and nobody listens where it did. Never silence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.later import Later
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.peers import Peers, Purpose

logger = logging.getLogger(__name__)

# A process that is being killed loses its connections before its listener: whoever asks at once is let in once more.
AGAIN_AFTER_MS = (20, 50, 100, 200, 400, 800)
# A broker that listens after so many of them has lost a connection and nothing else, as it seems.
_DOUBTED_TIMES = 3
# A dial that is refused says as much as a connection that breaks, and is all there is if none was up.
_EVIDENCE = (How.RESET, How.CLOSED, How.REFUSED)
# A process that is being killed may take one more connection, and break it off at once.
_UNDECIDED = (None, How.RESET, How.CLOSED)
# Who was found dead is so by decision of the controller well before that, or it was the network that refused.
_BELIEVED_MS = 15_000


class Deaths:
    """A broker listens before it registers, so one that does not listen is not the one that was registered."""

    def __init__(
        self, image: Image, when_dead: Callable[[int, int], None], when_alive: Callable[[int], None], clock: Clock
    ) -> None:
        """`when_dead` gets broker and broker epoch; `when_alive`: only the connection is gone."""
        self._image = image
        self._clock = clock
        self._when_dead = when_dead
        self._when_alive = when_alive
        self._probing: set[int] = set()
        # The newest epoch in which each was found dead.
        self.found: dict[int, int] = {}

    def lost(self, peers: Peers, node_id: int, purpose: Purpose, why: Unanswered) -> None:
        broker = self._image.brokers.get(node_id)
        if why.how not in _EVIDENCE or broker is None or node_id in self._probing:
            return
        if self.found.get(node_id) == broker.broker_epoch:
            # Known, and dialled again until the controller has said so.
            return
        self._probing.add(node_id)
        self._image.doubt(node_id)
        self._probe(peers, node_id, broker.broker_epoch, AGAIN_AFTER_MS)

    def _probe(self, peers: Peers, node_id: int, broker_epoch: int, again_after_ms: tuple[int, ...]) -> None:
        def probed(done: Later[Unanswered | None]) -> None:
            outcome = done.result()
            how = None if outcome is None else outcome.how
            broker = self._image.brokers.get(node_id)
            if how is How.REFUSED:
                self._probing.discard(node_id)
                logger.warning("broker.found.dead", extra={"broker": node_id, "broker_epoch": broker_epoch})
                self.found[node_id] = broker_epoch
                self._clock.call_at(self._clock.now_ms() + _BELIEVED_MS, partial(self._forget, node_id, broker_epoch))
                self._when_dead(node_id, broker_epoch)
                return
            if how is None and again_after_ms == AGAIN_AFTER_MS:
                self._when_alive(node_id)
            if how not in _UNDECIDED or len(AGAIN_AFTER_MS) - len(again_after_ms) >= _DOUBTED_TIMES - 1:
                self._image.trust(node_id)
            if how in _UNDECIDED and again_after_ms and broker is not None and broker.broker_epoch == broker_epoch:
                when_ms = self._clock.now_ms() + again_after_ms[0]
                self._clock.call_at(when_ms, partial(self._probe, peers, node_id, broker_epoch, again_after_ms[1:]))
                return
            self._probing.discard(node_id)

        peers.probe(node_id).when_done(probed)

    def _forget(self, node_id: int, broker_epoch: int) -> None:
        if self.found.get(node_id) == broker_epoch and node_id not in self._probing:
            del self.found[node_id]
            self._image.trust(node_id)
