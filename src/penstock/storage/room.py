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
from penstock.units import MIB

# So much from one sync to the next: logs that grow more slowly, of which there may be thousands, take what they need.
_BULK_BYTES: Final = MIB
# What comes from one sync to the next this often, so that room for the next two is always there.
_SYNCS_AHEAD: Final = 4
# Room that others may need is left to them: this is at most such a part of what is free.
_PART_OF_FREE: Final = 64


def room_ahead(
    disk: Disk, active: Segment | None, grown_bytes: int, settings: LogSettings
) -> Callable[[], None] | None:
    """For the thread that is about to sync what has grown since the last sync; None if there is nothing to do."""
    if active is None or grown_bytes < _BULK_BYTES or active.size + 2 * grown_bytes <= active.room_end:
        return None
    if settings.flush_policy != "acked":
        # One sync does not follow on the other, so what has come since the last one may have taken any time.
        return None
    start = max(active.size, active.room_end)
    # What comes behind that goes to the next segment.
    end = min(active.size + _SYNCS_AHEAD * grown_bytes, settings.segment_bytes)
    if end <= start:
        return None
    active.room_end = end
    return partial(_reserve, disk, active.file(), active.path, start, end - start)


def give_back(segment: Segment) -> None:
    """Nothing is appended to it now, and all of it is synced: then this waits for no page on its way to the disk."""
    if segment.room_end > segment.size:
        # What cannot be given back now goes with the segment.
        with suppress(OSError):
            segment.file().truncate(segment.size)
    segment.room_end = 0


def _reserve(disk: Disk, file: File, path: str, start: int, length: int) -> None:
    # Without it appends are slower, that is all.
    with suppress(OSError):
        if length * _PART_OF_FREE <= disk.space(path.rpartition("/")[0]).free_bytes:
            file.reserve(start, length)
