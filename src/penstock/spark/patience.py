"""Asking again what failed for a reason that passes, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.spark.core.failures import Again, NoAnswer, Unavailable
from penstock.units import SECOND_MS

T = TypeVar("T")

# An election takes about so long; a connection that was closed for being idle is made anew without a pause.
FIRST_PAUSE_MS = 50
MAX_PAUSE_MS = SECOND_MS


class Patience:
    def __init__(
        self,
        limit_ms: int,
        now_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit_ms = limit_ms
        self._now_s = now_s
        self._sleep_s = sleep_s

    def until_done(self, what: str, attempt: Callable[[], T]) -> T:
        """Calls `attempt` until it raises neither NoAnswer nor Again. Raises Unavailable, which says `what`."""
        deadline_s = self._now_s() + self._limit_ms / 1000
        pause_ms = 0
        while True:
            try:
                return attempt()
            except (NoAnswer, Again) as error:
                if self._now_s() + pause_ms / 1000 >= deadline_s:
                    raise Unavailable(f"{what} failed for {self._limit_ms} ms, at last because {error}") from error
            self._sleep_s(pause_ms / 1000)
            pause_ms = min(MAX_PAUSE_MS, max(FIRST_PAUSE_MS, 2 * pause_ms))

    def pause(self) -> None:
        """Once, for what brokers tell each other to arrive."""
        self._sleep_s(FIRST_PAUSE_MS / 1000)
