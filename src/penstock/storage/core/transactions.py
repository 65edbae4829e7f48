"""Which transactions of a log are open, and which have ended but not yet for good."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from penstock.storage.core.aborted import AbortedTransaction


class Transactions:
    """A producer has one at a time in a log. Offsets only ever rise, so the oldest was begun first."""

    __slots__ = ("_ended", "open")

    def __init__(self, begun: Iterable[tuple[int, int]] = ()) -> None:
        """`begun`: producers and the first offsets of what they have open."""
        # By producer, the oldest first.
        self.open: dict[int, int] = dict(sorted(begun, key=_offset))
        # First offsets and those of the markers, until these are below the high watermark: a heap.
        self._ended: list[tuple[int, int]] = []

    def begin(self, producer_id: int, offset: int) -> None:
        self.open[producer_id] = offset

    def end(self, producer_id: int, offset: int, *, is_commit: bool) -> AbortedTransaction | None:
        """Its marker is at `offset`; what to remember if it was aborted, also if it had nothing in this log."""
        first_offset = self.open.pop(producer_id, None)
        if first_offset is not None:
            heappush(self._ended, (first_offset, offset))
        if is_commit:
            return None
        stable_offset = next(iter(self.open.values()), offset + 1)
        return AbortedTransaction(producer_id, offset if first_offset is None else first_offset, offset, stable_offset)

    def move(self, producer_id: int, offset: int | None) -> None:
        """The one that is open began there; None: it has ended for good."""
        del self.open[producer_id]
        if offset is not None:
            self.open = dict(sorted([*self.open.items(), (producer_id, offset)], key=_offset))

    def last_stable_offset(self, high_watermark: int) -> int:
        """Before it every transaction has ended, with a marker that nothing takes back.

        High watermarks only rise: what has ended below one is forgotten.
        """
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            heappop(ended)
        if ended and ended[0][0] < high_watermark:
            high_watermark = ended[0][0]
        if self.open:
            return min(high_watermark, next(iter(self.open.values())))
        return high_watermark


def _offset(begun: tuple[int, int]) -> int:
    return begun[1]
