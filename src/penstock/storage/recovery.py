"""Opening a log after whatever happened to it: trust the checkpoint, read what was written behind it.

Only an invalid batch with nothing valid behind it, above the checkpoint, is a torn tail: a write that a crash cut
short. It is dropped. Anything else is damage to bytes that may have been acknowledged: they are kept, and reads of
them are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, File, write_fully
from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.core.checkpoint import Checkpoint, SegmentRow
from penstock.storage.core.damage import Damage, known_end
from penstock.storage.core.leader_epochs import LeaderEpochs
from penstock.storage.core.log_files import (
    CHECKPOINT_NAME,
    GAPS_NAME,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_stem,
)
from penstock.storage.core.producer_state import ProducerStates
from penstock.storage.core.replay import Replay
from penstock.storage.core.scan import next_valid_batch, valid_batches
from penstock.storage.doubt import SyncedMark
from penstock.storage.journal_share import JournalShare
from penstock.storage.producer_replay import producers_before, recover_indexes
from penstock.storage.recovery_report import RecoveryReport
from penstock.storage.segment import MOST_OFFSETS, Segment
from penstock.storage.segment_indexes import SegmentIndexes
from penstock.storage.sweep import sweep
from penstock.storage.transaction_index import TransactionIndexes
from penstock.wire.batch import HEADER_BYTES, BatchHeader


class Recovered(NamedTuple):
    """`changed`: segments of which bytes were taken up that no checkpoint vouches for, and from where on.

    `appendable`: the last segment can be appended to.
    """

    segments: list[Segment]
    start_offset: int
    synced_offset: int
    end_offset: int
    epochs: LeaderEpochs
    producers: ProducerStates
    aborted: TransactionIndexes
    report: RecoveryReport
    changed: list[tuple[Segment, int]]
    scanned_batches: int
    appendable: bool
    clean_offset: int
    # The journal had something that the checkpoint did not know, and below which sequence it does not count.
    was_journaled: bool
    journal_sequence: int
    # There was nothing of it, and what the journal may have of its partition is of another log.
    is_new: bool
    # A truncation had not ended. What it left is gone for good; nothing may be appended before a checkpoint says so.
    was_cut: bool
    mark: SyncedMark | None


class Recovery:
    """One opening of one log. Blocking."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: LogSettings,
        files: CheckpointFiles,
        now_ms: int,
        share: JournalShare | None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._interval_bytes = settings.index_interval_bytes
        self._now_ms = now_ms
        self._names = set(disk.list_directory(directory))
        self._compacted = "compact" in settings.cleanup_policy
        self._may_have_gaps = self._compacted or GAPS_NAME in self._names
        checkpoint, self._start_offset = files.read()
        self._checkpoint = checkpoint or Checkpoint(0, 0, [], [], [])
        # One from before a cut that has not ended speaks of what is cut off.
        self._mark = None if self._checkpoint.is_cut else SyncedMark.read(disk, directory)
        # Whatever is missing or invalid below it was there once.
        self._synced_offset = max(self._checkpoint.recovery_offset, self._mark.next_offset if self._mark else 0)
        self.report = RecoveryReport(self._checkpoint.recovery_offset, self._synced_offset, self._checkpoint.holes)
        if checkpoint is None and CHECKPOINT_NAME in self._names:
            self.report.notes.append("the checkpoint was unreadable, so the whole log was scanned")
        self._has_checkpoint = checkpoint is not None
        self._epochs = LeaderEpochs(self._checkpoint.epochs)
        # One in which this broker led and wrote nothing: what it took afterwards may be of an older one.
        self._epochs.cut_end(self._checkpoint.recovery_offset)
        self._producers = ProducerStates(self._checkpoint.producers)
        # By markers behind the checkpoint.
        self._aborted: list[AbortedTransaction] = []
        self._replay = Replay()
        if share is not None:
            share.raise_sequence(self._checkpoint.journal_sequence)
            self._replay = Replay(share.journaled, self._checkpoint.journal_sequence)
            share.journaled = ()
        # Base offset and generation of all segments.
        self._present: list[tuple[int, int]] = []
        self._segments: list[Segment] = []
        self._changed: dict[Segment, int] = {}
        self._scanned_batches = 0
        # Where a segment's valid bytes end although its file goes on.
        self._bad_tails: dict[Segment, int] = {}
        # What the checkpoint vouches for in files of which there is less. The journal may have the rest.
        self._vouched: dict[Segment, SegmentRow] = {}

    def run(self) -> Recovered:
        rows = {row.base_offset: row for row in self._checkpoint.segments}
        checkpoint = self._checkpoint if self._has_checkpoint else None
        self._present = sweep(self._disk, self._directory, self._names, checkpoint, self._start_offset)
        for base_offset, generation in self._present:
            self._take_up(base_offset, generation, rows.get(base_offset))
        self._judge_tails()
        self._note_missing(rows)
        self._forget_snapshots()
        aborted, self.report.transaction_indexes_rebuilt = recover_indexes(
            self._disk, self._segments, rows, self._aborted
        )
        recovery_offset = self._checkpoint.recovery_offset
        last = self._segments[-1] if self._segments else None
        written_end = last.next_offset if last else 0
        end_offset = max(written_end, self._start_offset, self._synced_offset)
        seen_end = known_end(written_end, last.damage) if last else 0
        if last is not None and seen_end < self._vouched_end() and self._synced_offset > self._start_offset:
            self._damaged(last, Damage(seen_end, self._synced_offset, last.size, last.size))
        self._epochs.cut_start(self._start_offset)
        start_offset = self._start_offset
        if not self._segments and end_offset > start_offset:
            self.report.notes.append(f"all records before offset {end_offset} are gone from the disk")
            self.report.lost = start_offset, end_offset
            start_offset = end_offset
        # Appending goes on in the last file only if it ends where the log ends.
        appendable = last is not None and written_end == end_offset and last not in self._bad_tails
        return Recovered(
            self._segments,
            start_offset,
            min(end_offset, max(start_offset, recovery_offset)) if self._changed else end_offset,
            end_offset,
            self._epochs,
            self._producers,
            aborted,
            self.report,
            [(segment, position) for segment, position in self._changed.items() if segment in self._segments],
            self._scanned_batches,
            appendable,
            self._checkpoint.clean_offset,
            bool(self._replay),
            self._checkpoint.journal_sequence,
            not self._has_checkpoint and not self._segments,
            self._checkpoint.is_cut,
            self._mark,
        )

    def _vouched_end(self) -> int:
        """Where the log ends at the earliest: one with gaps that was truncated ends behind its last batch or damage."""
        if self._synced_offset > self._checkpoint.recovery_offset:
            return self._synced_offset
        ends = [known_end(row.next_offset, row.damage) for row in self._checkpoint.segments if row.size or row.damage]
        return ends[-1] if ends else self._checkpoint.recovery_offset

    def _take_up(self, base_offset: int, generation: int, row: SegmentRow | None) -> None:
        segment = Segment(self._disk, self._directory, base_offset, self._now_ms, generation=generation)
        before = self._segments[-1] if self._segments else None
        if row is None and before and base_offset < before.next_offset and generation < before.generation:
            # Compaction merged it into the segment before it, and its removal did not reach the disk.
            segment.remove_files()
            return
        if before is None and base_offset > self._checkpoint.recovery_offset:
            self._producers = producers_before(self._disk, segment)
        is_last_row = row is not None and row is self._checkpoint.segments[-1]
        if row is not None and is_last_row and self._checkpoint.is_cut:
            self._cut_again(segment, row.size)
        size = segment.file().size()
        is_vouched = row is not None and row.generation == generation
        if row is not None and is_vouched and (size == row.size or (is_last_row and size > row.size)):
            segment.adopt(row)
            self._take_up_indexes(segment, needed=is_last_row)
        else:
            segment.start_indexes()
            if row is not None and is_vouched and size < row.size:
                self._vouched[segment] = row
        if segment.size < size or self._is_journaled(segment):
            self._changed[segment] = segment.size
            self._scan(segment, size)
        else:
            segment.release_file()
        self._segments.append(segment)

    def _cut_again(self, segment: Segment, size: int) -> None:
        """Also if it has the right size: the sync of the cut may have failed, and then the next one proves nothing

        unless there is something to sync.
        """
        file = segment.file()
        if file.size() >= size:
            file.truncate(size + 1)
            file.truncate(size)
            self._changed[segment] = size

    def _take_up_indexes(self, segment: Segment, *, needed: bool) -> None:
        """Those of closed segments are loaded when they are used; that they exist is checked at once."""
        stem = segment_stem(segment.base_offset, segment.generation)
        files = {stem + suffix for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
        if files <= self._names:
            if not needed:
                return
            segment.indexes = SegmentIndexes.load(self._disk, segment.path, segment.base_offset, segment.size)
        if segment.indexes is None and segment.size:
            segment.rebuild_indexes(self._interval_bytes)
            self.report.indexes_rebuilt += 1
        elif segment.indexes is None:
            segment.indexes = SegmentIndexes(segment.path, segment.base_offset)

    def _is_journaled(self, segment: Segment) -> bool:
        """The journal has what comes next in it."""
        return next(self._journaled(segment), None) is not None

    def _journaled(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
        expected = segment.next_offset
        epoch = self._epochs.epoch_of(expected)
        return self._replay.run_from(segment.base_offset, segment.generation, segment.size, expected, epoch)

    def _scan(self, segment: Segment, size: int) -> None:
        """Reads what is behind the segment's end as far as that is known, and puts back what only the journal has."""
        file = segment.file()
        position, expected = segment.size, segment.next_offset
        # What goes beyond has a flipped bit in its base offset, or is what a client sent, within a batch that is torn.
        end_offset, after = self._what_follows(segment)
        self.report.scanned_bytes += size - position
        while True:
            for found, header in valid_batches(
                file,
                position,
                size,
                expected,
                epoch=self._epochs.epoch_of(expected),
                gap_at_end=self._may_have_gaps,
                end_offset=end_offset,
                after=after,
            ):
                if self._mark is not None and self._mark.speaks_against(segment, found, header):
                    break
                if header.base_offset != expected:
                    segment.gaps = True
                position, expected = found + header.size, header.next_offset
                self._take_up_batch(segment, header)
            if self._put_back(segment, file):
                position, expected = segment.size, segment.next_offset
                size = max(size, position)
                continue
            if position == size:
                return
            sound = next_valid_batch(file, position + 1, size, expected, end_offset=end_offset)
            if sound is None:
                self._bad_tails[segment] = size
                return
            self._damaged(segment, Damage(expected, sound[1].base_offset, position, sound[0]))
            position, expected = sound[0], sound[1].base_offset
            segment.size, segment.next_offset = position, expected

    def _what_follows(self, segment: Segment) -> tuple[int, BatchHeader | None]:
        """Where it ends at the latest, and the first batch of the next segment. If that is sound: else it may be one

        that a power cut has brought back, and of an older generation what compaction has merged into this one.
        """
        end_offset = segment.base_offset + MOST_OFFSETS + 1
        following = next((each for each in self._present if each[0] > segment.base_offset), None)
        if following is None or following[1] < segment.generation:
            return end_offset, None
        behind = Segment(self._disk, self._directory, following[0], self._now_ms, generation=following[1])
        file = behind.file()
        for _, first in valid_batches(file, 0, file.size(), following[0], chunk_bytes=HEADER_BYTES):
            return min(end_offset, following[0]), first
        return end_offset, None

    def _take_up_batch(self, segment: Segment, header: BatchHeader) -> None:
        if not segment.size and header.max_timestamp >= 0:
            segment.created_ms = min(self._now_ms, header.max_timestamp)
        self._scanned_batches += 1
        next_offset = header.next_offset
        segment.grow(header.size, header.base_offset, next_offset, header.max_timestamp, self._interval_bytes)
        if next_offset > self._checkpoint.recovery_offset:
            self._epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                read = partial(segment.file().read, segment.size - header.size, header.size)
                if (aborted := self._producers.take_up(header, read, self._now_ms)) is not None:
                    self._aborted.append(aborted)

    def _put_back(self, segment: Segment, file: File) -> bool:
        """Writes what the journal has from the end of the segment's valid bytes on; whether that was anything.

        What was once written at a place is the only thing that was ever there, so this destroys nothing.
        """
        position = segment.size
        run = list(self._journaled(segment))
        if not run:
            return False
        write_fully(file, [b"".join(batch for _, batch in run)], position)
        for header, _ in run:
            segment.gaps = segment.gaps or header.base_offset != segment.next_offset
            self._take_up_batch(segment, header)
        self.report.put_back_bytes += segment.size - position
        return True

    def _judge_tails(self) -> None:
        """A bad tail is torn if nothing valid is behind it and it was not synced; else it is damage."""
        found = len(self._segments)
        while self._segments and self._segments[-1].size == 0:
            empty = self._segments[-1]
            if empty in self._bad_tails and empty.base_offset < self._synced_offset:
                break
            self._segments.pop()
            self.report.torn_bytes += self._bad_tails.pop(empty, 0)
            empty.remove_files()
        if len(self._segments) < found:
            # A power cut would bring it back, perhaps in the middle of what is appended until then.
            self._disk.sync_directory(self._directory)
        for segment, following in pairwise(self._segments):
            file_size = self._bad_tails.pop(segment, segment.size)
            is_shortened = self._is_shortened(segment)
            if file_size > segment.size or is_shortened or self._has_lost(segment, following):
                first_offset = segment.next_offset
                if self._may_have_gaps and file_size == segment.size and not is_shortened:
                    # It may have been truncated where it had a gap.
                    first_offset = max(first_offset, self._checkpoint.recovery_offset)
                self._damaged(segment, Damage(first_offset, following.base_offset, segment.size, file_size))
                segment.size = file_size
        if not self._segments:
            return
        last = self._segments[-1]
        if last in self._bad_tails:
            if last.next_offset >= self._synced_offset:
                self.report.torn_bytes += self._bad_tails.pop(last) - last.size
                last.file().truncate(last.size)
            else:
                end = self._bad_tails[last]
                self._damaged(last, Damage(last.next_offset, self._synced_offset, last.size, end))
                last.size, last.next_offset = end, self._synced_offset
        elif self._is_shortened(last):
            # Said of itself: what is missing behind it does not cover this.
            self._damaged(last, Damage(last.next_offset, self._vouched[last].next_offset, last.size, last.size))

    def _is_shortened(self, segment: Segment) -> bool:
        return segment in self._vouched and segment.size < self._vouched[segment].size

    def _has_lost(self, segment: Segment, following: Segment) -> bool:
        """Whether there was something between these two that no checkpoint vouches for, and that was not deleted."""
        if following.base_offset <= self._start_offset:
            return False
        recovery_offset = self._checkpoint.recovery_offset
        if not self._may_have_gaps:
            unvouched = segment in self._changed or following.base_offset > recovery_offset
            return segment.next_offset < following.base_offset and unvouched
        if not self._has_checkpoint and CHECKPOINT_NAME in self._names:
            # Then nobody knows what compaction has left.
            return False
        # Behind the checkpoint segments follow on each other, whatever their batches leave out; but no segment spans
        # a larger gap.
        missing = following.base_offset - max(segment.next_offset, recovery_offset)
        return 0 < missing <= MOST_OFFSETS

    def _note_missing(self, rows: dict[int, SegmentRow]) -> None:
        vouched_end = max(self._start_offset, self._checkpoint.recovery_offset)
        if self._segments and (first_offset := self._segments[0].base_offset) > vouched_end:
            self.report.damage.append(Damage(vouched_end, first_offset, 0, 0))
        present = {segment.base_offset for segment in self._segments}
        for row in rows.values():
            if row.base_offset not in present and row.next_offset > self._start_offset and row.size:
                damage = Damage(row.base_offset, row.next_offset, 0, 0)
                self.report.damage.append(damage)
                before = [segment for segment in self._segments if segment.next_offset <= row.base_offset]
                if before:
                    before[-1].add_damage(damage._replace(position=before[-1].size, end_position=before[-1].size))

    def _forget_snapshots(self) -> None:
        """Those taken behind damage know of batches that are not in the log any more."""
        first = min((damage.first_offset for damage in self.report.damage), default=None)
        for segment in self._segments:
            name = segment_stem(segment.base_offset, segment.generation) + SNAPSHOT_SUFFIX
            if first is not None and segment.base_offset > first and name in self._names:
                self._disk.remove(f"{self._directory}/{name}")

    def _damaged(self, segment: Segment, damage: Damage) -> None:
        segment.add_damage(damage)
        self.report.damage.append(damage)
