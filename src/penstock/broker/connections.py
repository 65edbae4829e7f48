"""All open connections: how many there may be, which are idle, which hold memory that others need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from penstock.broker.api import Caller
from penstock.broker.memory import RequestMemory
from penstock.broker.replies import Replies
from penstock.broker.reply_memory import ReplyMemory
from penstock.clock import Clock, Timer
from penstock.config.network import NetworkSettings
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.quiet import Quiet
from penstock.units import SECOND_MS
from penstock.wire.framing import FrameLimits

logger = logging.getLogger(__name__)

SWEEP_MS = SECOND_MS
# An unused large buffer goes back after this long; a busy producer keeps its own.
TRIM_AFTER_MS = 10 * SECOND_MS
# Different reasons to say something about one client, per ten seconds.
LINES_PER_PEER = 100
# While others wait for memory, a client that stops in the middle of a request or a reply may hold it this long.
STALLED_AFTER_MS = 10 * SECOND_MS
# A client's next request, and its connection to another broker, take less on a busy machine too.
_CALM_S = 0.1
_CALM_ATTEMPTS = 5


class Tracked(Protocol):
    """What the registry knows of a connection."""

    # Whether anything was received since the registry looked last.
    active: bool
    last_active_ms: int
    replies: Replies

    @property
    def mid_frame(self) -> bool: ...

    def trim(self) -> None: ...

    def hang_up(self, why: str) -> None:
        """Closes it and says in the log that the client is to blame."""

    def close(self) -> None:
        """Closes it when its replies have left; called again, at once."""


class Connections:
    def __init__(self, settings: NetworkSettings, metrics: BrokerMetrics, clock: Clock) -> None:
        self.memory = RequestMemory(settings.queued_max_request_bytes)
        self.reply_memory = ReplyMemory(settings.queued_max_response_bytes)
        self.check_prefix = FrameLimits(produce_bytes=settings.socket_request_max_bytes).check_prefix
        self.metrics = metrics
        self._settings = settings
        self._clock = clock
        self._open: set[Tracked] = set()
        # The same line once, whatever a client does, and only so many different ones.
        self._quiet_line = Quiet()
        self._quiet_peer = Quiet(lines=LINES_PER_PEER)
        self._sweeper: Timer | None = None

    def __len__(self) -> int:
        return len(self._open)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._clock.call_at(self._clock.now_ms() + delay_ms, callback)

    def admit(self, connection: Tracked, host: str) -> bool:
        """False: too many are open already."""
        if len(self._open) >= self._settings.max_connections:
            self.metrics.connections_refused += 1
            why = f"max.connections={self._settings.max_connections} are open; raise it"
            self._warn("connection.refused", host, {"why": why})
            return False
        connection.last_active_ms = self.now_ms()
        self._open.add(connection)
        self.metrics.connections = len(self._open)
        if self._sweeper is None:
            self._sweeper = self.call_later(SWEEP_MS, self._sweep)
        return True

    def gone(self, connection: Tracked) -> None:
        self._open.discard(connection)
        self.metrics.connections = len(self._open)

    def blame(self, caller: Caller, why: str) -> None:
        """A client's mistake cost it its connection: say so."""
        self.metrics.connections_closed_for_cause += 1
        self._warn("connection.closed", caller.host, {"client_id": caller.client_id, "why": why})

    async def calm(self) -> None:
        """Until clients have asked for nothing for a moment, or for too long. Whoever was told to go elsewhere may have

        no other connection yet: one that loses its last one begins all over again, with its bootstrap servers.
        """
        for _ in range(_CALM_ATTEMPTS):
            if not any(connection.active for connection in self._open):
                return
            for connection in self._open:
                connection.active = False
            await asyncio.sleep(_CALM_S)

    def close_all(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._open):
            connection.close()

    def _warn(self, event: str, host: str, fields: dict[str, object]) -> None:
        now_ms = self.now_ms()
        repeated = self._quiet_line.allow(f"{host} {event} {fields['why']}", now_ms)
        if repeated is not None and self._quiet_peer.allow(host, now_ms) is not None:
            held_back = {"repeated": repeated} if repeated else {}
            logger.warning(event, extra={"peer": host, **fields, **held_back})

    def _sweep(self) -> None:
        now_ms = self.now_ms()
        for connection in list(self._open):
            if connection.replies.unread and connection.replies.is_being_read():
                connection.active = True
            if connection.active:
                connection.active = False
                connection.last_active_ms = now_ms
            self._look_after(connection, now_ms - connection.last_active_ms)
        self.memory.nudge()
        self._sweeper = self.call_later(SWEEP_MS, self._sweep) if self._open else None

    def _look_after(self, connection: Tracked, idle_ms: int) -> None:
        if idle_ms > STALLED_AFTER_MS:
            if self.memory.contended and connection.mid_frame:
                connection.hang_up("stopped in the middle of a request while others wait for memory")
                return
            if self.reply_memory.exhausted and connection.replies.unread:
                connection.hang_up("does not read its replies, and the memory for replies is used up")
                return
            if idle_ms > self._settings.connections_max_idle_ms:
                logger.debug("connection.idle", extra={"idle_ms": idle_ms})
                connection.close()
                return
        if self.memory.tight or idle_ms > TRIM_AFTER_MS:
            connection.trim()
