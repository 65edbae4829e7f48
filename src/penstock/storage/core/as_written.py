"""Which bytes of a segment are what this process has written: nobody needs to look at them before they are sent."""

from __future__ import annotations

from penstock.units import MIB

# More than any kernel reads ahead.
STRETCH_BYTES = 4 * MIB
_NOWHERE = 2**63


class AsWritten:
    """Written from checked batches they are right, as long as they have not left the page cache: what comes back may be

    what a disk has made of it. That is kept by stretches, one bit for each.
    """

    __slots__ = ("_from", "_left")

    def __init__(self) -> None:
        self._from = _NOWHERE
        self._left = 0

    def begin(self, position: int) -> None:
        """What is there or behind it from now on is this process's own."""
        self._from = min(self._from, position)

    def holds(self, position: int, length: int) -> bool:
        """If these bytes are in the page cache now."""
        return position >= self._from and not self._left & _stretches(position, length)

    def left_the_cache(self, position: int, length: int) -> None:
        """Some of these bytes; whoever reads them next may have more read from the disk, behind them."""
        self._left |= _stretches(position, length + STRETCH_BYTES)

    def end(self) -> None:
        """The disk may not have what was written."""
        self._from = _NOWHERE


def _stretches(position: int, length: int) -> int:
    """Those that have some of these bytes, as bits."""
    first, last = position // STRETCH_BYTES, (position + max(1, length) - 1) // STRETCH_BYTES
    return (1 << last + 1) - (1 << first)
