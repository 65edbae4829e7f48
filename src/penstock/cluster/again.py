"""What failed and nothing announces the end of is tried again: soon at first, then less and less often."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import Clock, Timer

_FIRST_PAUSE_MS, _LAST_PAUSE_MS = 1_000, 30_000


class Again:
    def __init__(self, clock: Clock, try_it: Callable[[], object]) -> None:
        self._clock = clock
        self._try_it = try_it
        self._timer: Timer | None = None
        self._pause_ms = _FIRST_PAUSE_MS
        self._closed = False

    def look(self, is_needed: bool) -> None:
        """After each attempt, and whenever it may have become needed."""
        if not is_needed:
            self._pause_ms = _FIRST_PAUSE_MS
        elif self._timer is None and not self._closed:
            self._timer = self._clock.call_at(self._clock.now_ms() + self._pause_ms, self._due)
            self._pause_ms = min(2 * self._pause_ms, _LAST_PAUSE_MS)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._try_it()
