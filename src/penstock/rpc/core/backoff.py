"""When a peer may be dialled again. Nothing random: a cluster has few brokers, and each has one address to serve."""

from __future__ import annotations

# Never more often than this, also when a peer accepts and hangs up.
FIRST_MS = 50
# A broker that comes back is found this soon.
MAX_MS = 1000


class Backoff:
    __slots__ = ("_last_ms", "_pause_ms")

    def __init__(self) -> None:
        self._pause_ms = FIRST_MS
        self._last_ms: int | None = None

    def next_dial_ms(self, now_ms: int) -> int:
        """The moment of the next attempt, which is taken to be made then."""
        if self._last_ms is None:
            due_ms = now_ms
        else:
            due_ms = max(now_ms, self._last_ms + self._pause_ms)
            self._pause_ms = min(MAX_MS, 2 * self._pause_ms)
        self._last_ms = due_ms
        return due_ms

    def proven(self) -> None:
        """The peer has answered; that it accepted a connection is not enough."""
        self._pause_ms = FIRST_MS

    def forget(self) -> None:
        """It has registered anew: what was does not count."""
        self._pause_ms = FIRST_MS
        self._last_ms = None
