"""Which bytes of a log nobody may believe in without writing them again.

After a failed sync the kernel takes pages for clean that never reached the disk: the next sync finds nothing to do and
succeeds. They must be dirtied again, or it proves nothing. A log that sees its sync fail leaves word of it (`failed`).
A process that is killed while the sync runs cannot: so each good sync moves a mark, and what is behind the mark is in
doubt. The mark itself is never synced. A kill leaves it in the page cache; a power cut, which may not, leaves nothing
in memory that could differ from the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import crc32c

from penstock.disk.interface import Disk, File, read_whole, write_fully
from penstock.storage.core.leader_epochs import UNDEFINED
from penstock.storage.core.scan import SCAN_BYTES
from penstock.storage.segment import Segment
from penstock.storage.unasked import UnaskedFile, to_scan
from penstock.wire.batch import BatchHeader

FAILED_NAME = "failed"
MARK_NAME = "synced"

_MARK = struct.Struct(">QIQQi")
_CRC = struct.Struct(">I")


class SyncedMark(NamedTuple):
    """All segments before this one are synced, and so many bytes of it: everything below `next_offset`, all of it of

    `leader_epoch` or an older one. That stays so until the log is truncated, whatever else fails; but a segment before
    it may have grown since, after a start that dropped this one as empty, or by a merge.
    """

    base_offset: int
    generation: int
    size: int
    next_offset: int
    leader_epoch: int

    @classmethod
    def at_end_of(cls, segment: Segment, end_offset: int, latest_epoch: int | None) -> SyncedMark:
        """`end_offset`: of the log, which may have lost what is behind its last segment."""
        epoch = UNDEFINED if latest_epoch is None else latest_epoch
        return cls(segment.base_offset, segment.generation, segment.size, end_offset, epoch)

    @classmethod
    def read(cls, disk: Disk, directory: str) -> SyncedMark | None:
        """None if there is none that can be believed. Raises OSError."""
        try:
            data = read_whole(disk, f"{directory}/{MARK_NAME}")
        except FileNotFoundError:
            return None
        if len(data) != _MARK.size + _CRC.size or _CRC.pack(crc32c.crc32c(data[: _MARK.size])) != data[_MARK.size :]:
            return None
        return cls._make(_MARK.unpack_from(data))

    def write(self, disk: Disk, directory: str) -> None:
        """Blocking. Where it cannot be written, the one before only speaks for less."""
        packed = _MARK.pack(*self)
        with suppress(OSError):
            file = disk.open(f"{directory}/{MARK_NAME}", create=True)
            write_fully(file, [packed + _CRC.pack(crc32c.crc32c(packed))], 0)

    def synced_size(self, segment: Segment) -> int:
        if segment.base_offset < self.base_offset:
            return segment.size if segment.next_offset <= self.next_offset else 0
        return self.size if (segment.base_offset, segment.generation) == self[:2] else 0

    def speaks_against(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """It was synced, and its offsets or its epoch had not come by then."""
        if segment.base_offset < self.base_offset:
            # What has grown there since is behind the mark.
            return header.next_offset <= self.next_offset and header.leader_epoch > self.leader_epoch
        if (segment.base_offset, segment.generation) != self[:2] or position + header.size > self.size:
            return False
        return header.next_offset > self.next_offset or header.leader_epoch > self.leader_epoch


def remove_mark(disk: Disk, directory: str) -> None:
    """What it speaks for goes. Raises OSError."""
    with suppress(FileNotFoundError):
        disk.remove(f"{directory}/{MARK_NAME}")


class Doubtful(NamedTuple):
    """Bytes of a segment that are in the page cache and perhaps not on disk, whatever the next sync says."""

    segment: Segment
    position: int
    end: int

    def writing_again(self) -> Callable[[], None]:
        """To be called, blocking, before that sync; raises OSError. The file is open from now on."""
        return partial(_write_again, self.segment.file(), to_scan(self.segment), self.position, self.end)


def doubtful(changed: Iterable[tuple[Segment, int]], mark: SyncedMark | None) -> list[Doubtful]:
    """Of segments, from a position on, what the mark does not speak for."""
    found = []
    for segment, position in changed:
        start = position if mark is None else max(position, mark.synced_size(segment))
        if start < segment.size:
            found.append(Doubtful(segment, start, segment.size))
    return found


def _write_again(file: File, unasked: UnaskedFile, position: int, end: int) -> None:
    while position < end and (data := unasked.read(position, min(SCAN_BYTES, end - position))):
        position = write_fully(file, [data], position)


def leave_word(disk: Disk, directory: str) -> None:
    """A sync has failed."""
    with suppress(OSError):
        disk.open(f"{directory}/{FAILED_NAME}", create=True)


def has_word(disk: Disk, directory: str) -> bool:
    return disk.exists(f"{directory}/{FAILED_NAME}")


def forget_word(disk: Disk, directory: str) -> None:
    """Everything that was written again is synced. Raises OSError."""
    disk.remove(f"{directory}/{FAILED_NAME}")
    disk.sync_directory(directory)
