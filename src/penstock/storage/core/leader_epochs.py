"""Which leader wrote which part of a log (KIP-101): how replicas find where they part."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

UNDEFINED = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """`UNDEFINED` in both where nothing is known of the epoch asked for."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """Epochs and their start offsets, both ascending."""

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts = list(starts)

    @property
    def latest(self) -> int | None:
        return self._starts[-1].epoch if self._starts else None

    def starts(self) -> list[EpochStart]:
        return list(self._starts)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records of `epoch` follow from `start_offset` on; an epoch already there keeps its start."""
        # An epoch that wrote nothing leaves no trace, also a later one: its leader may follow one with older records.
        while self._starts and self._starts[-1].start_offset >= start_offset and self._starts[-1].epoch != epoch:
            self._starts.pop()
        if not self._starts or epoch > self._starts[-1].epoch:
            self._starts.append(EpochStart(epoch, start_offset))

    def epoch_of(self, offset: int) -> int:
        """The epoch in which `offset` was or will be written."""
        place = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        return self._starts[place - 1].epoch if place else UNDEFINED

    def end_offset_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch not beyond the one asked for, and where it ends (KIP-279)."""
        if not self._starts or epoch < 0 or epoch > self._starts[-1].epoch:
            return EpochEnd(UNDEFINED, UNDEFINED)
        if epoch == self._starts[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        place = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        known = self._starts[place - 1].epoch if place else epoch
        return EpochEnd(known, self._starts[place].start_offset)

    def cut_end(self, end_offset: int) -> None:
        """The log now ends here."""
        while self._starts and self._starts[-1].start_offset >= end_offset:
            self._starts.pop()

    def cut_start(self, start_offset: int) -> None:
        """The log now starts here: the epoch that reaches across starts here too."""
        place = bisect_right(self._starts, start_offset, key=lambda start: start.start_offset)
        if place:
            self._starts[:place] = [EpochStart(self._starts[place - 1].epoch, start_offset)]
