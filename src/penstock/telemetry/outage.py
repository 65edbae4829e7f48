"""Keeps the lines few about one thing that fails again and again until somebody does something about it."""

from __future__ import annotations

from penstock.units import MINUTE_MS, SECOND_MS

_FIRST_INTERVAL_MS = 10 * SECOND_MS
_LONGEST_INTERVAL_MS = 10 * MINUTE_MS


class Outage:
    """The first failure is worth a line, then fewer and fewer, and so is another reason."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._next_line_ms = 0
        self._interval_ms = 0
        self._times = 0

    @property
    def lasts(self) -> bool:
        return self._why is not None

    def failed(self, why: str, now_ms: int) -> int | None:
        """How many times in all, if this is worth a line."""
        self._times += 1
        if why != self._why:
            self._interval_ms = _FIRST_INTERVAL_MS
        elif now_ms < self._next_line_ms:
            return None
        else:
            self._interval_ms = min(2 * self._interval_ms, _LONGEST_INTERVAL_MS)
        self._why = why
        self._next_line_ms = now_ms + self._interval_ms
        return self._times

    def over(self) -> int:
        """It works again; how many times it failed."""
        times, self._times, self._why = self._times, 0, None
        return times
