"""One segment: a `.log` file of whole batches, and what is known of it without reading it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

from penstock.disk.interface import Disk, File
from penstock.storage.core.checkpoint import SegmentRow
from penstock.storage.core.damage import Damage, known_end
from penstock.storage.core.known_bytes import KnownBytes
from penstock.storage.core.log_files import LOG_SUFFIX, SUFFIXES, segment_stem
from penstock.storage.core.retention import SegmentFacts
from penstock.storage.core.scan import ANY_OFFSET, next_valid_batch, sound_batches
from penstock.storage.segment_indexes import NO_TIMESTAMP, SegmentIndexes
from penstock.storage.unasked import UnaskedFile, to_scan
from penstock.wire.batch import BatchHeader

# Offsets in its index have 32 bits.
MOST_OFFSETS = 2**31 - 1

logger = logging.getLogger(__name__)

# One for all segments: it is held for a moment, and hardly ever.
_CHANGING_INDEXES = threading.Lock()


class Segment:
    """Holds no descriptor and no index until it is used, and lets both go again with `release`.

    Changed on the event loop's thread; what only reads the file may run on any.
    """

    __slots__ = (
        "_disk",
        "_file",
        "base_offset",
        "created_ms",
        "damage",
        "gaps",
        "generation",
        "indexes",
        "is_removed",
        "known",
        "max_timestamp_ms",
        "next_offset",
        "path",
        "room_end",
        "size",
        "truncations",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, created_ms: int, *, generation: int = 0) -> None:
        self._disk = disk
        self._file: File | None = None
        # Loaded when first used; always there for the segment that is appended to.
        self.indexes: SegmentIndexes | None = None
        # Without suffix. Compaction writes the next generation beside the one in use; the checkpoint says which counts.
        self.path = f"{directory}/{segment_stem(base_offset, generation)}"
        self.base_offset = base_offset
        self.generation = generation
        self.created_ms = created_ms
        self.size = 0
        # Up to where there is room on the disk for it.
        self.room_end = 0
        self.next_offset = base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self.damage: tuple[Damage, ...] = ()
        # Compaction took records out of it, so offsets may be missing.
        self.gaps = False
        # Tells a reader that its bytes may have been cut off and replaced under it.
        self.truncations = 0
        self.known = KnownBytes()
        # Its files are gone, and their names may be those of another by now.
        self.is_removed = False

    @property
    def facts(self) -> SegmentFacts:
        newest_ms = self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.created_ms
        # What is lost behind its last batch is retained, too: as an error.
        return SegmentFacts(known_end(self.next_offset, self.damage), self.size, newest_ms)

    def file(self) -> File:
        """For reads of what is asked for, and checked; all others go through `to_scan`."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path + LOG_SUFFIX)
        return file

    def create(self) -> None:
        """Makes its file, empty; the name is durable once the directory is synced."""
        file = self._disk.open(self.path + LOG_SUFFIX, create=True)
        file.truncate(0)
        self._file = file
        self.known.write_from(0)
        self.start_indexes()

    def start_indexes(self) -> None:
        """It has no bytes yet that an index could speak of."""
        self.indexes = SegmentIndexes(self.path, self.base_offset)

    def grow(self, size: int, base_offset: int, next_offset: int, max_timestamp_ms: int, interval_bytes: int) -> None:
        """A batch of `size` bytes is now at the end of the file."""
        position = self.size
        indexes = self.indexes
        if indexes is not None and position >= indexes.next_position:
            indexes.add(base_offset, position, self.max_timestamp_ms, interval_bytes)
        self.size = position + size
        self.next_offset = next_offset
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms

    def ready_indexes(self, interval_bytes: int, file: File | None = None) -> SegmentIndexes:
        """On any thread. Blocking when they are not loaded: what the files do not tell is read from the log.

        `file`: of the log, from whoever has it open. Retention may have taken its name away meanwhile.
        """
        indexes = self.indexes
        if indexes is None:
            truncations = self.truncations
            indexes = SegmentIndexes.load(self._disk, self.path, self.base_offset, self.size)
            if indexes is None:
                logger.warning("log.index.rebuilt", extra={"segment": self.path, "bytes": self.size})
                return self.rebuild_indexes(interval_bytes, file)
            _use(self, indexes, truncations)
        return indexes

    def rebuild_indexes(self, interval_bytes: int, file: File | None = None) -> SegmentIndexes:
        """On any thread. Blocking."""
        truncations = self.truncations
        unasked = UnaskedFile(file or self.file(), self.known)
        rebuilt = SegmentIndexes.rebuild(
            unasked, self.path, self.base_offset, self.next_offset, self.size, interval_bytes
        )
        _use(self, rebuilt, truncations)
        return rebuilt

    def release(self) -> None:
        """Lets descriptor and indexes go; indexes that are in no file yet stay."""
        self.release_file()
        if self.indexes is not None and self.indexes.is_saved(self.size):
            self.indexes = None

    def release_file(self) -> None:
        """A thread that still reads keeps its own hold on the file."""
        self._file = None

    def row(self, aborted: int = 0) -> SegmentRow:
        """`aborted`: rows of its index of aborted transactions, which the log has."""
        return SegmentRow(
            self.base_offset,
            self.generation,
            self.size,
            self.next_offset,
            self.max_timestamp_ms,
            self.created_ms,
            self.gaps,
            list(self.damage),
            aborted,
        )

    def adopt(self, row: SegmentRow) -> None:
        """What a checkpoint says of it."""
        self.size = row.size
        self.next_offset = row.next_offset
        self.max_timestamp_ms = row.max_timestamp_ms
        self.created_ms = row.created_ms
        self.gaps = row.gaps
        self.damage = tuple(row.damage)

    def batches(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of the sound batches from the one at `position` on. On any thread. Blocking."""
        return sound_batches(to_scan(self), position, self.size, ANY_OFFSET, self.next_offset)

    def cut(self, position: int, next_offset: int, interval_bytes: int) -> None:
        """What is known of it when it ends where a batch begins, or damage. Blocking; the file is not touched.

        `next_offset`: what begins there; it ends before that if compaction left a gap.
        """
        indexes = self.ready_indexes(interval_bytes)
        indexes.cut(position)
        self.size = position
        self.room_end = 0
        self.next_offset = next_offset
        with _CHANGING_INDEXES:
            self.truncations += 1
            self.indexes = indexes
        self.damage = tuple(damage for damage in self.damage if damage.next_offset <= next_offset)
        newest_ms, known_position = indexes.newest()
        for found, header in sound_batches(to_scan(self), known_position, position, ANY_OFFSET, next_offset):
            newest_ms = max(newest_ms, header.max_timestamp)
            if found + header.size == position:
                self.next_offset = header.next_offset
        self.max_timestamp_ms = newest_ms

    def damage_at(self, offset: int) -> Damage | None:
        for damage in self.damage:
            if damage.first_offset <= offset < damage.next_offset:
                return damage
        return None

    def place_before(self, offset: int, indexes: SegmentIndexes) -> tuple[int, int]:
        """Base offset and position of a batch at or before the one with `offset`, and no damage in between."""
        base_offset, position = indexes.before_offset(offset)
        for damage in self.damage:
            if damage.next_offset <= offset and damage.end_position > position:
                base_offset, position = damage.next_offset, damage.end_position
        return base_offset, position

    def sound_end(self, position: int) -> int:
        """Where the sound bytes that `position` belongs to end."""
        if not self.damage:
            return self.size
        return min((damage.position for damage in self.damage if damage.position >= position), default=self.size)

    def add_damage(self, damage: Damage) -> None:
        """On any thread: a cold read or the scrub found it."""
        if damage not in self.damage:
            self.damage = tuple(sorted((*self.damage, damage)))

    def diagnose(self, position: int, expected_offset: int) -> Damage:
        """How far the damage reaches that begins at `position`. On any thread. Blocking."""
        sound = next_valid_batch(to_scan(self), position + 1, self.size, expected_offset, end_offset=self.next_offset)
        if sound is None:
            return Damage(expected_offset, max(self.next_offset, expected_offset + 1), position, self.size)
        return Damage(expected_offset, sound[1].base_offset, position, sound[0])

    def remove_files(self, suffixes: Sequence[str] = SUFFIXES) -> None:
        """Blocking. Files that are gone already are fine."""
        for suffix in suffixes if not self.is_removed else ():
            try:
                self._disk.remove(self.path + suffix)
            except FileNotFoundError:
                continue
        self.is_removed = self.is_removed or LOG_SUFFIX in suffixes


def _use(segment: Segment, indexes: SegmentIndexes, truncations: int) -> None:
    """Unless it was truncated while they were made: they speak of what is not there."""
    with _CHANGING_INDEXES:
        if segment.truncations == truncations:
            segment.indexes = indexes
