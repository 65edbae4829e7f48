"""Where records are missing behind which there are more: what a power cut may leave of what was never synced."""

from __future__ import annotations

import msgspec


class Holes(msgspec.Struct, array_like=True, frozen=True):
    """Of one log: first and next offset of each, in order. It is part of a checkpoint, because that vouches for what is

    around them: the next start would not find them, and its replica would acknowledge what it does not have.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    def first(self, start_offset: int) -> int | None:
        """Where a log that starts there has to be cut."""
        return next((max(first, start_offset) for first, after in self.ranges if after > start_offset), None)

    def from_start(self, start_offset: int) -> Holes:
        return Holes(tuple(each for each in self.ranges if each[1] > start_offset))

    def before(self, end_offset: int) -> Holes:
        """Those of a log that was truncated."""
        return Holes(tuple((first, min(after, end_offset)) for first, after in self.ranges if first < end_offset))
