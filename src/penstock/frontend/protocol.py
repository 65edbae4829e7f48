"""HTTP connections that cost little, whatever their clients do or leave undone."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.clock import Clock, Timer
from penstock.units import SECOND_MS

# From connecting, or from the last answer, to the end of the next one: far more than a page takes. uvicorn alone waits
# for ever for a client that says nothing or does not read.
ANSWER_WITHIN_MS = 10 * SECOND_MS


class BoundedHttpProtocol(H11Protocol):
    """h11, because it limits the size of a request's head; unread bodies stop at uvicorn's own limit."""

    def __init__(self, config: uvicorn.Config, state: ServerState, clock: Clock) -> None:
        super().__init__(config, state, {})
        self._clock = clock
        self._deadline: Timer | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self._clock.call_at(self._clock.now_ms() + ANSWER_WITHIN_MS, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
