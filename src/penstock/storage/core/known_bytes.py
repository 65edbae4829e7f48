"""Which bytes of a segment are known to be right, so that nobody needs to look at them before they are sent."""

from __future__ import annotations

from penstock.units import KIB

# No system has larger pages.
PAGE_BYTES = 64 * KIB
# Whoever reads here and there makes many; it is no use to know each.
MOST_RANGES = 64
_NO_END = 2**63


class KnownBytes:
    """This process has written them from checked batches, or has checked them, and they have been in the page cache

    since: what comes back from a disk may be what the disk has made of it. On the event loop's thread, but for `doubt`.
    """

    __slots__ = ("_is_doubted", "_ranges")

    def __init__(self) -> None:
        # Ascending, apart from each other.
        self._ranges: list[tuple[int, int]] = []
        self._is_doubted = False

    def write_from(self, position: int) -> None:
        """What is there or behind it from now on is this process's own."""
        self._add(position, _NO_END)

    def checked(self, position: int, length: int) -> None:
        """They were read and are right."""
        if length > 0:
            self._add(position, position + length)

    def holds(self, position: int, length: int) -> bool:
        """If these bytes are in the page cache now."""
        if self._is_doubted:
            self._is_doubted = False
            self._ranges = []
        return any(start <= position and position + length <= end for start, end in self._ranges)

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of these bytes is known."""
        parts = [(max(each[0], start), min(each[1], end)) for each in self._ranges]
        return [each for each in parts if each[0] < each[1]]

    def left_the_cache(self, start: int, end: int) -> None:
        """Some of these bytes; when they are read they come from the disk."""
        before = [(each[0], min(each[1], start)) for each in self._ranges]
        behind = [(max(each[0], end), each[1]) for each in self._ranges]
        self._ranges = sorted(each for each in {*before, *behind} if each[0] < each[1])

    def doubt(self) -> None:
        """On any thread: it is read without being checked, or the disk may not have what was written."""
        self._is_doubted = True

    def _add(self, start: int, end: int) -> None:
        apart = []
        for each in self._ranges:
            if each[1] < start or each[0] > end:
                apart.append(each)
            else:
                start, end = min(start, each[0]), max(end, each[1])
        self._ranges = sorted([*apart, (start, end)])[-MOST_RANGES:]
