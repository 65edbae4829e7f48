"""The two indexes of one segment: batches by offset, and by the newest timestamp before them."""

from __future__ import annotations

from penstock.disk.interface import Disk
from penstock.storage.core.index_entries import OFFSETS, TIMESTAMPS
from penstock.storage.core.log_files import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from penstock.storage.core.scan import SCAN_BYTES, Readable, sound_batches
from penstock.storage.index import IndexBlock, SparseIndex

NO_TIMESTAMP = -1


class SegmentIndexes:
    """Entries are added at least `interval_bytes` apart; both indexes have the same ones."""

    __slots__ = ("_base_offset", "_offsets", "_times", "next_position")

    def __init__(self, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = SparseIndex(path + OFFSET_INDEX_SUFFIX, OFFSETS)
        self._times = SparseIndex(path + TIME_INDEX_SUFFIX, TIMESTAMPS)
        # A batch that begins at or behind this position gets an entry.
        self.next_position = 0

    @classmethod
    def load(cls, disk: Disk, path: str, base_offset: int, log_bytes: int) -> SegmentIndexes | None:
        """None if the files do not tell everything up to `log_bytes`. Blocking."""
        indexes = cls(path, base_offset)
        indexes._offsets = SparseIndex.load(disk, path + OFFSET_INDEX_SUFFIX, OFFSETS)
        indexes._times = SparseIndex.load(disk, path + TIME_INDEX_SUFFIX, TIMESTAMPS)
        if not indexes.is_saved(log_bytes):
            return None
        indexes.cut(log_bytes)
        return indexes

    @classmethod
    def rebuild(
        cls, file: Readable, path: str, base_offset: int, end_offset: int, log_bytes: int, interval_bytes: int
    ) -> SegmentIndexes:
        """From the log itself; damaged parts are left out. Blocking: reads the whole file."""
        indexes = cls(path, base_offset)
        newest_ms = NO_TIMESTAMP
        for position, header in sound_batches(file, 0, log_bytes, base_offset, end_offset, chunk_bytes=SCAN_BYTES):
            if position >= indexes.next_position:
                indexes.add(header.base_offset, position, newest_ms, interval_bytes)
            newest_ms = max(newest_ms, header.max_timestamp)
        return indexes

    def add(self, base_offset: int, position: int, newest_ms: int, interval_bytes: int) -> None:
        """A batch begins at `position`; no record before it is newer than `newest_ms`."""
        self._offsets.add(base_offset - self._base_offset, position)
        self._times.add(newest_ms, position)
        self.next_position = position + interval_bytes

    def before_offset(self, offset: int) -> tuple[int, int]:
        """Base offset and position of a batch at or before the one that holds `offset`, and near it."""
        entry = self._offsets.floor(offset - self._base_offset)
        if entry is None and (first := self._offsets.first()) is not None and first[1] == 0:
            # In a gap before the first batch.
            entry = first
        return (entry[0] + self._base_offset, entry[1]) if entry else (self._base_offset, 0)

    def around_position(self, position: int) -> tuple[int | None, int | None]:
        """Where a batch begins at or before that position, and where one behind it: the nearest that are known."""
        return self._offsets.positions_around(position)

    def before_time(self, timestamp_ms: int) -> int:
        """The position of a batch before which every record is older than that."""
        entry = self._times.floor(timestamp_ms - 1)
        return entry[1] if entry else 0

    def newest(self) -> tuple[int, int]:
        """The newest timestamp before the last batch that has an entry, and that batch's position."""
        return self._times.last() or (NO_TIMESTAMP, 0)

    def cut(self, position: int) -> None:
        """The log now ends at `position`."""
        self._offsets.cut(position)
        self._times.cut(position)
        self.next_position = min(self.next_position, position)

    def take_blocks(self, log_bytes: int) -> list[IndexBlock]:
        """What the files lack to cover the log up to here; counted as saved from now on."""
        blocks = (self._offsets.take_block(log_bytes), self._times.take_block(log_bytes))
        return [block for block in blocks if block is not None]

    def is_saved(self, log_bytes: int) -> bool:
        return min(self._offsets.covers, self._times.covers) >= log_bytes

    def forget_saved(self) -> None:
        """A block could not be written, or the files were cut."""
        self._offsets.forget_saved()
        self._times.forget_saved()
