"""The heavy part of compaction: reads closed segments, writes what stays of them. Touches nothing that is in use."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.disk.interface import Buffer, Disk, File, read_whole, write_fully
from penstock.errors import PenstockError, Problem
from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.core.cleaned_transactions import CleanedTransactions
from penstock.storage.core.compaction import (
    BatchFilter,
    ClosedSegment,
    CompactionRules,
    DirtyRange,
    Fate,
    merge_groups,
    readable_records,
)
from penstock.storage.core.key_map import KeyMap
from penstock.storage.core.log_files import LOG_SUFFIX, SNAPSHOT_SUFFIX
from penstock.storage.core.scan import valid_batches
from penstock.storage.gaps import say_gaps
from penstock.storage.segment import Segment
from penstock.storage.unasked import to_scan
from penstock.units import KIB, MIB
from penstock.wire.batch import BatchHeader, read_header
from penstock.wire.control import read_marker

# Half a million keys in one pass; a log with more takes several.
KEY_MAP_BYTES = 24 * MIB
# Compaction shares the interpreter with the event loop, so it goes in steps of some tens of milliseconds.
STEP_BYTES = 256 * KIB
# Removed at the next start, as all files of this name are.
_TEMPORARY_SUFFIX = ".tmp"
_CHUNK_BYTES = MIB


class CleaningTask(NamedTuple):
    """What a pass works on: gathered on the event loop's thread, used on another.

    `kept_batches`: producer id and last offset of the batches that tell a living producer's sequence; `kept_markers`:
    producer id and epoch where only a marker tells the epoch; `keeps_all_markers`: as `Compaction.begin`. `aborted`:
    transactions that overlap with the segments.
    `generation`: of what the pass makes; newer than all that the log has or had a moment ago.
    """

    closed: tuple[Segment, ...]
    dirty: DirtyRange
    rules: CompactionRules
    now_ms: int
    kept_batches: frozenset[tuple[int, int]]
    kept_markers: frozenset[tuple[int, int]]
    keeps_all_markers: bool
    aborted: tuple[AbortedTransaction, ...]
    generation: int
    index_interval_bytes: int
    records_limit_bytes: int


class Replacement(NamedTuple):
    """A new segment, complete and on disk, for neighbours of which it holds what stays.

    `dropped_markers`: offsets of those that ended transactions of which nothing was left.
    """

    old: tuple[Segment, ...]
    new: Segment
    dropped_markers: frozenset[int]


class Cleaning:
    """One pass. Call `step` until `is_done`, on pool threads, one call at a time; it raises OSError, PenstockError.

    What a step returned must be in use before the next: a deletion marker may not go before what it deletes.
    """

    def __init__(self, disk: Disk, directory: str, task: CleaningTask, key_map_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._task = task
        self._keys = KeyMap(key_map_bytes)
        self._output: _Output | None = None
        self._work = self._run()
        # Everything below it is compacted when the pass is done.
        self.clean_offset = task.dirty.start_offset
        self.is_done = False

    def step(self) -> Replacement | None:
        """A bit of work, and a new segment when one is ready."""
        try:
            return next(self._work)
        except StopIteration:
            self.is_done = True
            return None

    def abandon(self) -> None:
        """Throw away what is not finished. Blocking."""
        self._work.close()
        self.is_done = True
        if self._output is not None:
            self._output.discard()
            self._output = None

    def _run(self) -> Generator[Replacement | None, None, None]:
        yield from self._map_keys()
        batch_filter = BatchFilter(
            self._keys,
            mapped_offset=self.clean_offset,
            now_ms=self._task.now_ms,
            delete_retention_ms=self._task.rules.delete_retention_ms,
            kept_batches=self._task.kept_batches,
            limit_bytes=self._task.records_limit_bytes,
            kept_markers=self._task.kept_markers,
            keeps_all_markers=self._task.keeps_all_markers,
            transactions=CleanedTransactions(self._task.aborted),
        )
        sources = [segment for segment in self._task.closed if segment.base_offset < self.clean_offset]
        for group in merge_groups([facts_of(segment) for segment in sources], self._task.rules.segment_bytes):
            yield from self._clean_group([sources[place] for place in group], batch_filter)

    def _map_keys(self) -> Iterator[None]:
        """Fill the map with the dirty records, as far as it goes; that may end inside of a batch."""
        start_offset, end_offset = self._task.dirty
        transactions = CleanedTransactions(row for row in self._task.aborted if row.last_offset >= start_offset)
        read_bytes = 0
        for segment in self._task.closed:
            if segment.next_offset <= start_offset or segment.base_offset >= end_offset:
                continue
            for _, header, batch in _batches(segment):
                if header.next_offset <= start_offset:
                    continue
                # An aborted record must not push out the committed one before it.
                if _has_no_records(batch, header, transactions):
                    self.clean_offset = header.next_offset
                else:
                    self.clean_offset = self._map_batch(batch, header, start_offset)
                if self.clean_offset < header.next_offset:
                    return
                read_bytes += header.size
                if read_bytes >= STEP_BYTES:
                    read_bytes = 0
                    yield None
            self.clean_offset = segment.next_offset

    def _map_batch(self, batch: memoryview, header: BatchHeader, start_offset: int) -> int:
        """The first offset that is not in the map."""
        for record in readable_records(batch, self._task.records_limit_bytes) or ():
            if record.key is None or record.offset < start_offset:
                continue
            if not self._keys.put(record.key, record.offset):
                return record.offset
        return header.next_offset

    def _clean_group(self, group: Sequence[Segment], batch_filter: BatchFilter) -> Iterator[Replacement | None]:
        first, last = group[0], group[-1]
        output = self._output = _Output(self._disk, self._directory, first, self._task)
        changed = len(group) > 1
        dropped_markers: set[int] = set()
        read_bytes = 0
        for segment in group:
            for position, header, batch in _batches(segment):
                at_start = segment is first and position == 0
                at_end = segment is last and position + header.size == segment.size
                outcome = batch_filter.apply(batch, header, is_edge=at_start or at_end)
                if outcome.fate is not Fate.UNCHANGED:
                    changed = True
                if outcome.fate is not Fate.DROPPED:
                    output.append(outcome.batch)
                elif header.is_control:
                    dropped_markers.add(header.base_offset)
                read_bytes += header.size
                if read_bytes >= STEP_BYTES:
                    read_bytes = 0
                    yield None
        if changed:
            new = output.finish()
            self._output = None
            yield Replacement(tuple(group), new, frozenset(dropped_markers))
        else:
            self._output = None
            output.discard()


def facts_of(segment: Segment) -> ClosedSegment:
    newest_ms = segment.facts.newest_ms
    return ClosedSegment(segment.base_offset, segment.next_offset, segment.size, segment.created_ms, newest_ms)


def _has_no_records(batch: memoryview, header: BatchHeader, transactions: CleanedTransactions) -> bool:
    """None that count, because it is a marker or aborted."""
    if not header.is_control:
        return transactions.is_aborted(header)
    if (marker := read_marker(batch)) is not None:
        transactions.leaves_nothing(header, marker)
    return True


def _batches(segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """All batches of a closed segment, checked; damage ends the pass, with an error that says where."""
    file = to_scan(segment)
    truncations = segment.truncations
    end, expected_offset = 0, segment.base_offset
    for position, header in valid_batches(
        file,
        0,
        segment.size,
        expected_offset,
        chunk_bytes=_CHUNK_BYTES,
        gap_at_end=segment.gaps,
        end_offset=segment.next_offset,
    ):
        yield position, header, memoryview(file.read(position, header.size))
        end, expected_offset = position + header.size, header.next_offset
    if segment.truncations != truncations:
        raise PenstockError(Problem.OFFSET_NOT_AVAILABLE, f"{segment.path} was truncated while it was compacted")
    if end != segment.size:
        damage = segment.diagnose(end, expected_offset)
        segment.add_damage(damage)
        raise damage.error()


class _Output:
    """A new segment that grows under a temporary name."""

    def __init__(self, disk: Disk, directory: str, first: Segment, task: CleaningTask) -> None:
        """It begins where `first` does, so what was known of producers there is right for it too."""
        self._disk = disk
        self._directory = directory
        self._first = first
        self._interval_bytes = task.index_interval_bytes
        self._segment = Segment(disk, directory, first.base_offset, first.created_ms, generation=task.generation)
        self._segment.gaps = True
        self._segment.start_indexes()
        self._temporary = self._segment.path + LOG_SUFFIX + _TEMPORARY_SUFFIX
        self._file: File = disk.open(self._temporary, create=True)
        self._file.truncate(0)
        self._pending = bytearray()
        self._written = 0

    def append(self, batch: Buffer) -> None:
        header = read_header(batch)
        self._pending += batch
        self._segment.grow(
            header.size, header.base_offset, header.next_offset, header.max_timestamp, self._interval_bytes
        )
        if len(self._pending) >= _CHUNK_BYTES:
            self._write()

    def finish(self) -> Segment:
        self._write()
        self._file.sync()
        self._file.close()
        # Truncation goes back to an older one if this is missing or torn.
        with suppress(OSError):
            # The first segment of a log has none.
            content = read_whole(self._disk, self._first.path + SNAPSHOT_SUFFIX)
            snapshot = self._disk.open(self._segment.path + SNAPSHOT_SUFFIX, create=True)
            write_fully(snapshot, [content], 0)
            snapshot.close()
        say_gaps(self._disk, self._directory)
        self._disk.rename(self._temporary, self._segment.path + LOG_SUFFIX)
        # A checkpoint that names it may come before any other sync of the directory.
        self._disk.sync_directory(self._directory)
        return self._segment

    def discard(self) -> None:
        self._file.close()
        self._disk.remove(self._temporary)

    def _write(self) -> None:
        self._written = write_fully(self._file, [self._pending], self._written)
        self._pending = bytearray()
