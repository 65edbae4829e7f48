"""The memory that receiving requests may take, over all connections.

A connection's small buffer is free; what it needs beyond that is taken from here. Whoever gets nothing stops reading
until others are done, so a surge slows clients down instead of ending the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.units import MIB

# Below this share of the limit memory is plenty, and nobody is slowed down.
CALM: Final = 0.5
# So much may lie in buffers that are kept for their connections' next requests: enough for a few producers with
# large batches. With more of them, mapping a buffer anew costs less than a megabyte for each that happens to connect.
KEPT_BYTES: Final = 4 * MIB


class RequestMemory:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        self._given_back = 0
        self._given_back_before = 0
        # Whoever waits, in turn, with what it holds meanwhile.
        self._waiting: dict[Callable[[], None], int] = {}
        self._waiting_bytes = 0
        # Buffers that are not in the middle of a request should be given back.
        self.tight = False

    @property
    def taken_bytes(self) -> int:
        return self._taken_bytes

    @property
    def contended(self) -> bool:
        return bool(self._waiting)

    def take(self, size: int, held: int = 0) -> bool:
        """False: not now, call `when_free`. A lone request, whose `held` bytes are all that is taken, always gets its

        memory, whatever the limit says.
        """
        if self._taken_bytes > held and (self._taken_bytes + size > self._limit_bytes or self._waiting):
            return False
        self.take_in_turn(size)
        return True

    def take_in_turn(self, size: int) -> None:
        """For a caller that waited: it goes beyond the limit by one request at most, so that the queue always moves."""
        self._taken_bytes += size
        self._see()

    def give_back(self, size: int) -> None:
        self._taken_bytes -= size
        self._given_back += size
        while self._waiting and self._taken_bytes < self._limit_bytes:
            self._next_turn()
        self._see()

    def nudge(self) -> None:
        """Called now and then: should whoever holds memory not come to an end, one of those that wait may go on."""
        if self._waiting and self._given_back == self._given_back_before:
            self._next_turn()
        self._given_back_before = self._given_back

    def when_free(self, callback: Callable[[], None], held: int = 0) -> None:
        """Calls back once, perhaps at once: when all that hold memory wait for more, nobody else can end the wait."""
        self._waiting[callback] = held
        self._waiting_bytes += held
        self._see()
        if self._waiting_bytes >= self._taken_bytes:
            self._next_turn()

    def forget(self, callback: Callable[[], None]) -> None:
        """The waiting connection has gone."""
        self._waiting_bytes -= self._waiting.pop(callback, 0)
        self._see()

    def pressure(self) -> float:
        """How much of the limit is taken, 0 to 1."""
        return 1.0 if self._waiting else min(1.0, self._taken_bytes / self._limit_bytes)

    def _next_turn(self) -> None:
        callback = next(iter(self._waiting))
        self._waiting_bytes -= self._waiting.pop(callback)
        callback()

    def _see(self) -> None:
        self.tight = bool(self._waiting) or self._taken_bytes > min(KEPT_BYTES, CALM * self._limit_bytes)
