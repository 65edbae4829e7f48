"""The moments at which a machine must act by itself."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import NamedTuple


class Purpose(IntEnum):
    """What falls due. At the same moment they run in this order."""

    SESSION = 1
    JOIN_PHASE = 2
    SYNC_PHASE = 3
    REVOCATION = 4
    OFFSET_EXPIRY = 5


class Deadline(NamedTuple):
    """Which timer; `member_id` is empty for those of a whole group, `group_id` for those of the whole machine."""

    group_id: str
    purpose: Purpose
    member_id: str = ""


class Deadlines:
    """At most one moment per `Deadline`.

    A heartbeat moves one of these, so moving must cost next to nothing: the heap entry of a deadline may be older than
    the moment it stands for and is corrected only when it comes up.
    """

    def __init__(self) -> None:
        self._moments: dict[Deadline, int] = {}
        self._heap: list[tuple[int, Deadline]] = []
        self._entries: dict[Deadline, int] = {}
        """The moment in the heap entry that counts for a deadline; other entries of it are left over."""

    def arm(self, deadline: Deadline, when_ms: int) -> None:
        self._moments[deadline] = when_ms
        entry = self._entries.get(deadline)
        if entry is None or when_ms < entry:
            self._entries[deadline] = when_ms
            heapq.heappush(self._heap, (when_ms, deadline))

    def disarm(self, deadline: Deadline) -> None:
        self._moments.pop(deadline, None)

    def get(self, deadline: Deadline) -> int | None:
        return self._moments.get(deadline)

    def next_ms(self) -> int | None:
        heap = self._heap
        while heap:
            when_ms, deadline = heap[0]
            if self._entries.get(deadline) != when_ms:
                heapq.heappop(heap)
                continue
            moment = self._moments.get(deadline)
            if moment == when_ms:
                return when_ms
            if moment is None:
                heapq.heappop(heap)
                del self._entries[deadline]
            else:
                heapq.heapreplace(heap, (moment, deadline))
                self._entries[deadline] = moment
        return None

    def due(self, now_ms: int) -> list[Deadline]:
        """All that have passed, oldest first. They stay armed until disarmed or moved."""
        found: dict[Deadline, int] = {}
        waiting = [0]
        while waiting:
            place = waiting.pop()
            if place >= len(self._heap) or self._heap[place][0] > now_ms:
                continue
            deadline = self._heap[place][1]
            moment = self._moments.get(deadline)
            if moment is not None and moment <= now_ms:
                found[deadline] = moment
            waiting += (2 * place + 1, 2 * place + 2)
        return sorted(found, key=lambda deadline: (found[deadline], deadline.purpose, deadline))
