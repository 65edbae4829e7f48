"""The memory that receiving requests may take, over all connections.

A connection's small buffer is free; what it needs beyond that is taken from here. Whoever gets nothing stops reading
until others are done, so a surge slows clients down instead of ending the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class RequestMemory:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        self._given_back = 0
        self._given_back_before = 0
        self._waiting: deque[Callable[[], None]] = deque()

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
        self._taken_bytes += size
        return True

    def take_in_turn(self, size: int) -> None:
        """For a caller that waited: it goes beyond the limit by one request at most, so that the queue always moves."""
        self._taken_bytes += size

    def give_back(self, size: int) -> None:
        self._taken_bytes -= size
        self._given_back += size
        if self._waiting and self._taken_bytes < self._limit_bytes:
            self._waiting.popleft()()

    def nudge(self) -> None:
        """Called now and then: should all that hold memory also wait for more, one of them may go on."""
        if self._waiting and self._given_back == self._given_back_before:
            self._waiting.popleft()()
        self._given_back_before = self._given_back

    def when_free(self, callback: Callable[[], None]) -> None:
        self._waiting.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """The waiting connection has gone."""
        if callback in self._waiting:
            self._waiting.remove(callback)

    def pressure(self) -> float:
        """How much of the limit is taken, 0 to 1."""
        return min(1.0, self._taken_bytes / self._limit_bytes)
