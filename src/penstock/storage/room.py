"""Room on the disk for what a log with large batches will append, found ahead by a pool thread.

For each page that is appended the kernel looks for room and keeps a record of it, which takes nearly as long as to copy
the page; where there is room already it does neither.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, File
from penstock.storage.segment import Segment
from penstock.storage.unasked import forget_end
from penstock.units import MIB, SECOND_MS

# So much in such a time, and less than one large batch, which may be all that a sync covers: logs that grow more
# slowly, of which there may be thousands, take what they need.
_BULK_BYTES: Final = MIB // 2
_BULK_MS: Final = SECOND_MS
# What comes from one sync to the next this often, so that room for the next two is always there.
_SYNCS_AHEAD: Final = 4
# At once: meanwhile nothing can be appended to the file.
_MOST_BYTES: Final = 32 * MIB
# Room that others may need is left to them: this is at most such a part of what is free.
_PART_OF_FREE: Final = 64


class Growth:
    """Of one log, as its syncs see it."""

    def __init__(self, appended_bytes: int) -> None:
        self._bytes = appended_bytes
        self._last_append_ms = 0
        self.is_fast = False

    def at_sync(
        self, disk: Disk, active: Segment | None, settings: LogSettings, appended_bytes: int, last_append_ms: int
    ) -> Callable[[], None] | None:
        """What the thread that is about to sync does first; None if the log grows slowly, or there is room enough."""
        grown_bytes = appended_bytes - self._bytes
        self.is_fast = grown_bytes >= _BULK_BYTES and last_append_ms - self._last_append_ms <= _BULK_MS
        self._bytes, self._last_append_ms = appended_bytes, last_append_ms
        if active is None or not self.is_fast or settings.flush_policy != "acked":
            return None
        return _room_ahead(disk, active, grown_bytes, settings.segment_bytes)


def _room_ahead(disk: Disk, active: Segment, grown_bytes: int, segment_bytes: int) -> Callable[[], None] | None:
    if active.size + 2 * grown_bytes <= active.room_end:
        return None
    start = max(active.size, active.room_end)
    # What comes behind that goes to the next segment.
    end = min(active.size + _SYNCS_AHEAD * grown_bytes, start + _MOST_BYTES, segment_bytes)
    if end <= start:
        return None
    active.room_end = end
    return partial(_reserve, disk, active.file(), active.path, start, end - start)


def give_back(segment: Segment) -> None:
    """Nothing is appended to it now, and all of it is synced: then this waits for no page on its way to the disk."""
    if segment.room_end > segment.size:
        # What cannot be given back now goes with the segment.
        with suppress(OSError):
            file = segment.file()
            forget_end(segment.known, file, segment.size)
            file.truncate(segment.size)
    segment.room_end = 0


def _reserve(disk: Disk, file: File, path: str, start: int, length: int) -> None:
    # Without it appends are slower, that is all.
    with suppress(OSError):
        if length * _PART_OF_FREE <= disk.space(path.rpartition("/")[0]).free_bytes:
            file.reserve(start, length)
