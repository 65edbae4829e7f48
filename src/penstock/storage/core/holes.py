"""Where records are missing behind which there are more: what a power cut may leave of what was never synced."""

from __future__ import annotations

import msgspec


class Holes(msgspec.Struct, array_like=True, frozen=True):
    """Of one log: first and next offset of each, in order. It is part of a checkpoint, because that vouches for what is

    around them: the next start would not find them, and its replica would acknowledge what it does not have.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    # What is behind holes that begin below it may have been acknowledged, so a leader is not cut there.
    kept_offset: int = 0

    def first(self, start_offset: int) -> int | None:
        """Where a log that starts there has to be cut."""
        return next((max(first, start_offset) for first, after in self.ranges if after > start_offset), None)

    def without_kept(self) -> Holes:
        return Holes(tuple(each for each in self.ranges if each[0] >= self.kept_offset))

    def kept_below(self, offset: int) -> Holes:
        return Holes(self.ranges, max(self.kept_offset, offset))

    def from_start(self, start_offset: int) -> Holes:
        return Holes(tuple(each for each in self.ranges if each[1] > start_offset), self.kept_offset)

    def before(self, end_offset: int) -> Holes:
        """Those of a log that was truncated."""
        ranges = tuple((first, min(after, end_offset)) for first, after in self.ranges if first < end_offset)
        return Holes(ranges, min(self.kept_offset, end_offset))
