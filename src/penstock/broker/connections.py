"""All open connections: how many there may be, which are idle, which hold memory that others wait for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from penstock.broker.api import Caller
from penstock.broker.memory import RequestMemory
from penstock.clock import Clock, Timer
from penstock.config.network import NetworkSettings
from penstock.telemetry.broker import BrokerMetrics
from penstock.units import SECOND_MS
from penstock.wire.framing import FrameLimits

logger = logging.getLogger(__name__)

SWEEP_MS = SECOND_MS
# An unused large buffer goes back after this long; a busy producer keeps its own.
TRIM_AFTER_MS = 10 * SECOND_MS
# While others wait for memory, a client that stops in the middle of a request may hold it this long.
STALLED_AFTER_MS = 10 * SECOND_MS


class Tracked(Protocol):
    """What the registry knows of a connection."""

    last_active_ms: int

    @property
    def mid_frame(self) -> bool: ...

    def trim(self) -> None: ...

    def hang_up(self, why: str) -> None: ...


class Connections:
    def __init__(self, settings: NetworkSettings, metrics: BrokerMetrics, clock: Clock) -> None:
        self.memory = RequestMemory(settings.queued_max_request_bytes)
        self.check_prefix = FrameLimits(produce_bytes=settings.socket_request_max_bytes).check_prefix
        self.metrics = metrics
        self._settings = settings
        self._clock = clock
        self._open: set[Tracked] = set()
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
            logger.warning(
                "connection.refused",
                extra={"peer": host, "why": f"max.connections={self._settings.max_connections} are open; raise it"},
            )
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

    def refused(self, caller: Caller, why: str) -> None:
        """A client's mistake cost it its connection: say so."""
        self.metrics.connections_closed_for_cause += 1
        logger.warning("connection.closed", extra={"peer": caller.host, "client_id": caller.client_id, "why": why})

    def close_all(self, why: str) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._open):
            connection.hang_up(why)

    def _sweep(self) -> None:
        now_ms = self.now_ms()
        contended = self.memory.contended
        for connection in list(self._open):
            idle_ms = now_ms - connection.last_active_ms
            if contended and connection.mid_frame and idle_ms > STALLED_AFTER_MS:
                connection.hang_up("stopped in the middle of a request while others wait for memory")
            elif idle_ms > self._settings.connections_max_idle_ms:
                connection.hang_up(
                    f"idle for longer than connections.max.idle.ms={self._settings.connections_max_idle_ms}"
                )
            elif contended or idle_ms > TRIM_AFTER_MS:
                connection.trim()
        self.memory.nudge()
        self._sweeper = self.call_later(SWEEP_MS, self._sweep) if self._open else None
