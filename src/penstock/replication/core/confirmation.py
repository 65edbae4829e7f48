"""Whether a leader still led at some moment: for answers that must not come from the past.

A leader that was deposed and does not know it may answer reads for as long as nobody tells it. Whoever was elected
instead was in the ISR, or may have been; so if every one of those asks this leader for more, in its own epoch and after
that moment, none of them leads. A fetch that arrives after the moment may have left before it; but the second one on a
connection left after the answer to the first.
"""

from __future__ import annotations

from collections.abc import Set


class Confirmation:
    def __init__(self) -> None:
        """The moment is now."""
        # By replica, the connections on which it has fetched once.
        self._once: dict[int, set[int]] = {}
        self._twice: set[int] = set()

    @property
    def has_begun(self) -> bool:
        """If not, it is as good for every later moment until then."""
        return bool(self._once)

    def fetched(self, replica: int, connection: int) -> None:
        """In this leader's epoch."""
        connections = self._once.setdefault(replica, set())
        if connection in connections:
            self._twice.add(replica)
        connections.add(connection)

    def is_by_all(self, replicas: Set[int]) -> bool:
        """`replicas`: who may be in the ISR now, without the leader."""
        return replicas <= self._twice

    def awaits(self, replica: int) -> bool:
        return replica not in self._twice
