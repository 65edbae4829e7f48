"""One timer for many deadlines: a timer per request would cost more than the request."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import Clock, Timer


class Alarm:
    __slots__ = ("_clock", "_ring", "_timer", "_when_ms")

    def __init__(self, clock: Clock, ring: Callable[[int], None]) -> None:
        """`ring` gets the time, and says with `arm` when it is wanted again."""
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self._when_ms = 0

    def arm(self, when_ms: int) -> None:
        """Of several moments the earliest counts."""
        if self._timer is not None:
            if self._when_ms <= when_ms:
                return
            self._timer.cancel()
        self._when_ms = when_ms
        self._timer = self._clock.call_at(when_ms, self._due)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        # A timer may be early by a part of a millisecond.
        self._ring(max(self._clock.now_ms(), self._when_ms))
