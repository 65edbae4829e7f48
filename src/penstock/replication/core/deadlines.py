"""The moments at which a machine must act by itself."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    """At most one moment per key.

    A heartbeat moves one of these, so moving must cost next to nothing: the heap entry of a key may be older than the
    moment it stands for and is corrected only when it comes up.
    """

    def __init__(self, order: Callable[[Key], Any] = lambda key: key) -> None:
        """`order`: of those that are due at the same moment."""
        self._order = order
        self._moments: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []
        self._entries: dict[Key, int] = {}
        """The moment in the heap entry that counts for a key; other entries of it are left over."""

    def arm(self, key: Key, when_ms: int) -> None:
        self._moments[key] = when_ms
        entry = self._entries.get(key)
        if entry is None or when_ms < entry:
            self._entries[key] = when_ms
            heapq.heappush(self._heap, (when_ms, key))

    def disarm(self, key: Key) -> None:
        self._moments.pop(key, None)

    def get(self, key: Key) -> int | None:
        return self._moments.get(key)

    def next_ms(self) -> int | None:
        heap = self._heap
        while heap:
            when_ms, key = heap[0]
            if self._entries.get(key) != when_ms:
                heapq.heappop(heap)
                continue
            moment = self._moments.get(key)
            if moment == when_ms:
                return when_ms
            if moment is None:
                heapq.heappop(heap)
                del self._entries[key]
            else:
                heapq.heapreplace(heap, (moment, key))
                self._entries[key] = moment
        return None

    def first_due(self, now_ms: int, count: int) -> list[Key]:
        """At most so many of those that have passed, oldest first as far as they were not moved. It costs what it

        finds, however many are due.
        """
        found: dict[Key, None] = {}
        waiting = [(self._heap[0], 0)] if self._heap else []
        while waiting and len(found) < count:
            (when_ms, key), place = heapq.heappop(waiting)
            if when_ms > now_ms:
                break
            moment = self._moments.get(key)
            if moment is not None and moment <= now_ms:
                found[key] = None
            for child in range(2 * place + 1, min(2 * place + 3, len(self._heap))):
                heapq.heappush(waiting, (self._heap[child], child))
        return list(found)

    def due(self, now_ms: int) -> list[Key]:
        """All that have passed, oldest first. They stay armed until disarmed or moved."""
        found: dict[Key, int] = {}
        waiting = [0]
        while waiting:
            place = waiting.pop()
            if place >= len(self._heap) or self._heap[place][0] > now_ms:
                continue
            key = self._heap[place][1]
            moment = self._moments.get(key)
            if moment is not None and moment <= now_ms:
                found[key] = moment
            waiting += (2 * place + 1, 2 * place + 2)
        return sorted(found, key=lambda key: (found[key], self._order(key)))
