"""What a log consists of while it is open, and the steps that its operations share."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, write_fully
from penstock.errors import PenstockError, Problem
from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.checkpoint import Checkpoint, ProducerSnapshot
from penstock.storage.core.log_files import SNAPSHOT_SUFFIX
from penstock.storage.core.sealed import seal
from penstock.storage.doubt import leave_word
from penstock.storage.journal_share import JournalShare
from penstock.storage.recovery import Recovered
from penstock.storage.room import Growth
from penstock.storage.segment import Segment
from penstock.storage.sync import GroupCommit
from penstock.units import MIB, SECOND_MS

if TYPE_CHECKING:
    from penstock.storage.stage import Stage

logger = logging.getLogger(__name__)

# A scan reads a gigabyte in half a second and looks at forty thousand batches in a tenth: checkpoints so far apart
# keep recovery of one log to about that tenth, and cost a few syncs of small files each.
CHECKPOINT_BYTES = 128 * MIB
CHECKPOINT_BATCHES = 40_000
# A log to which nothing was appended for this to twice this long writes a checkpoint and lets its descriptor go.
IDLE_MS = 15 * SECOND_MS
# Descriptors and indexes of closed segments that are kept for the next reader.
_WARM_SEGMENTS = 4


class LogState:
    """All of it belongs to the event loop's thread.

    end_offset >= durable_offset >= synced_offset: what is written, what the journal or the files have for good, and
    what the files have for good.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: LogSettings,
        files: CheckpointFiles,
        recovered: Recovered,
        share: JournalShare | None,
    ) -> None:
        self.disk = disk
        self.directory = directory
        # Replaced at run time when the topic's configuration changes.
        self.settings = settings
        self.files = files
        self.recovery = recovered.report
        self.holes = recovered.report.holes
        self.segments = recovered.segments
        # The segment that is appended to; None when the next append begins a new one.
        self.active = self.segments[-1] if recovered.appendable else None
        if self.active is not None:
            self.active.known.write_from(self.active.size)
            if recovered.changed:
                # A process that was killed may have left some behind the end.
                self.active.room_end = settings.segment_bytes
        self.epochs = recovered.epochs
        self.producer_states = recovered.producers
        self.aborted = recovered.aborted
        self.start_offset = recovered.start_offset
        self.end_offset = recovered.end_offset
        self.synced_offset = self.durable_offset = recovered.synced_offset
        self.latest_epoch = self.epochs.latest
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.commit = GroupCommit(disk, directory)
        if recovered.changed:
            self.commit.took_up([segment for segment, _ in recovered.changed if segment is not self.active])
        self.share = share
        # For the next journal entry; None while only a sync of the files makes the end of the log durable.
        self.stage: Stage | None = None
        self.truncations = 0
        self._journal_sequence = recovered.journal_sequence
        self.failure: str | None = None
        # Deleted segments whose files are still there or have just gone, and when those may go.
        self.doomed: list[tuple[int, Segment]] = []
        # The same of segments that compaction replaced; they are doomed once a checkpoint names the new ones.
        self.replaced: list[tuple[int, Segment]] = []
        # How far compaction has come, and the same in the last checkpoint.
        self.clean_offset = self._checkpointed_clean_offset = recovered.clean_offset
        # All that was appended since the last checkpoint when the log was opened, and how much of that the last
        # checkpoint and the last sync know.
        self.appended_bytes = recovered.report.scanned_bytes
        self.appended_batches = recovered.scanned_batches
        self.checkpointed_bytes = 0
        self.checkpointed_batches = 0
        self._gathered = (0, 0, 0, 0)
        self._checkpoint_complaint: str | None = None
        self.synced_bytes = self.durable_bytes = 0
        self.growth = Growth(self.appended_bytes)
        self.unsynced_since_ms = 0
        self.last_append_ms = 0
        # When a checkpoint was begun that is not known to be written.
        self.tried_checkpoint_ms = 0
        # Logs that fall idle together do not all write their checkpoints together.
        self._idle_ms = IDLE_MS + crc32(directory.encode()) % IDLE_MS
        # Base offsets and positions of the newest batches of the active segment, all written by this process.
        self.tail_offsets = array("q")
        self.tail_positions = array("q")
        self._warm: list[Segment] = []

    def segment_of(self, offset: int) -> Segment | None:
        """The segment in whose range `offset` lies; None if that is below the first or all are gone."""
        place = bisect_right(self.segments, offset, key=_base_offset)
        return self.segments[place - 1] if place else None

    def segment_after(self, segment: Segment) -> Segment | None:
        place = bisect_right(self.segments, segment.base_offset, key=_base_offset)
        return self.segments[place] if place < len(self.segments) else None

    def warm(self, segment: Segment) -> None:
        """It is being read: keep it open, and let go of the one that was not read for longest."""
        if segment is self.active:
            return
        if segment in self._warm:
            self._warm.remove(segment)
        self._warm.append(segment)
        if len(self._warm) > _WARM_SEGMENTS:
            coldest = self._warm.pop(0)
            if not self.commit.waits_for(coldest):
                coldest.release()

    def roll(self, now_ms: int) -> Segment:
        """A new segment to append to. Raises OSError; then everything is as it was."""
        segment = Segment(self.disk, self.directory, self.end_offset, now_ms)
        segment.create()
        self.stage = None
        self.commit.made_name()
        if self.active is not None:
            self.commit.rolled(self.active)
        if self.segments or len(self.producer_states):
            snapshot = ProducerSnapshot(self.end_offset, self.producer_states.entries())
            # Truncation without it goes back to an older one, or to the log itself.
            with suppress(OSError):
                write_fully(self.disk.open(segment.path + SNAPSHOT_SUFFIX, create=True), [seal(snapshot)], 0)
        self.segments.append(segment)
        self.active = segment
        self.forget_tail()
        return segment

    def forget_tail(self) -> None:
        self.tail_offsets, self.tail_positions = array("q"), array("q")

    def drop_oldest(self, count: int) -> None:
        """The first segments leave the log; their files stay for now."""
        dropped, self.segments = self.segments[:count], self.segments[count:]
        self.commit.drop(dropped)
        self._warm = [segment for segment in self._warm if segment not in dropped]
        for segment in dropped:
            self.size_bytes -= segment.size
            segment.release()
        first_offset = self.segments[0].base_offset if self.segments else self.end_offset
        self.start_offset = max(self.start_offset, first_offset)
        self.epochs.cut_start(self.start_offset)
        self.aborted.rows.cut_start(first_offset)

    def move_start(self, before_offset: int) -> int:
        """What is below it is gone for readers; files go with retention. The start, which never moves back."""
        if before_offset > self.start_offset:
            self.start_offset = before_offset
            self.epochs.cut_start(before_offset)
        return self.start_offset

    def replace_segments(
        self, old: Sequence[Segment], new: Segment, now_ms: int, dropped_markers: Collection[int] = ()
    ) -> bool:
        """Compaction's step: `new`, complete and on disk, takes the place of neighbours. False if they changed.

        It lasts once a checkpoint is written; until then a crash brings back the old ones. `dropped_markers`: offsets
        of those that it does not have any more.
        """
        place = bisect_right(self.segments, new.base_offset, key=_base_offset) - 1
        present = self.segments[max(place, 0) : place + len(old)]
        if self.failure is not None or present != list(old) or self.active in old:
            return False
        self.segments[place : place + len(old)] = [new]
        self.aborted.rows.drop(dropped_markers)
        self.commit.drop(old)
        self._warm = [segment for segment in self._warm if segment not in old]
        self.warm(new)
        self.size_bytes += new.size - sum(segment.size for segment in old)
        self.replaced += [(now_ms + self.settings.file_delete_delay_ms, segment) for segment in old]
        return True

    def is_idle(self, now_ms: int) -> bool:
        """A checkpoint that fails counts as work too: what is in its way, as a full disk, lasts, and is in the way of

        all logs.
        """
        return now_ms - max(self.last_append_ms, self.tried_checkpoint_ms) >= self._idle_ms

    @property
    def has_unsaved(self) -> bool:
        """Something that only a checkpoint tells the next start."""
        return (
            self.appended_batches != self.checkpointed_batches
            or self.clean_offset != self._checkpointed_clean_offset
            or bool(self.replaced)
        )

    def checkpoint_is_due(self) -> bool:
        return (
            self.appended_bytes - self.checkpointed_bytes >= CHECKPOINT_BYTES
            or self.appended_batches - self.checkpointed_batches >= CHECKPOINT_BATCHES
            or bool(self.replaced)
        )

    def gather_checkpoint(self, *, for_good: bool = False, is_cut: bool = False) -> Callable[[], None]:
        """The log as it is now, to be written when everything before is synced. Blocking; raises OSError.

        `for_good`: needed before files go away that the checkpoint before this one speaks of. `is_cut`: the files have
        more than the log.
        """
        content = Checkpoint(
            self.end_offset,
            self.start_offset,
            [segment.row(self.aborted.count_in(segment)) for segment in self.segments],
            self.epochs.starts(),
            self.producer_states.entries(),
            self.clean_offset,
            self._journal_sequence if self.share is None else self.share.next_sequence(),
            is_cut,
            self.holes.from_start(self.start_offset),
        )
        blocks = [
            block
            for segment in self.segments
            if segment.indexes is not None
            for block in segment.indexes.take_blocks(segment.size)
        ]
        blocks += self.aborted.take_blocks(self.segments)
        self._gathered = (self.appended_bytes, self.appended_batches, self.clean_offset, len(self.replaced))
        return partial(self.files.write, self.files.take_turn(), blocks, content, for_good or bool(self.replaced))

    def checkpoint_written(self, error: OSError | None) -> None:
        """What `gather_checkpoint` gave out was done, or failed: then what was counted as saved may not be."""
        if error is None:
            self.checkpointed_bytes, self.checkpointed_batches, self._checkpointed_clean_offset, replaced = (
                self._gathered
            )
            self.doomed += self.replaced[:replaced]
            del self.replaced[:replaced]
            self._checkpoint_complaint = None
            self.tried_checkpoint_ms = 0
            self._release_unused()
            return
        # On a full disk every idle log tries again and again: once is enough said.
        if str(error) != self._checkpoint_complaint:
            self._checkpoint_complaint = str(error)
            logger.warning("log.checkpoint.failed", extra={"directory": self.directory, "why": str(error)})
        self.aborted.forget_saved()
        for segment in self.segments:
            if segment.indexes is not None:
                segment.indexes.forget_saved()

    def _release_unused(self) -> None:
        """Indexes that were kept because they were not saved yet; descriptor and tail if all is synced: thousands of

        logs that are written to now and then must not each keep what only a busy one needs.
        """
        for segment in self.segments:
            if segment is not self.active and segment not in self._warm and not self.commit.waits_for(segment):
                segment.release()
        if self.active is not None and self.end_offset == self.synced_offset:
            self.active.release_file()
            self.forget_tail()

    def begin_epoch(self, leader_epoch: int) -> None:
        if self.latest_epoch is not None and leader_epoch < self.latest_epoch:
            text = f"leader epoch {leader_epoch} is over, the log has records of {self.latest_epoch}"
            raise PenstockError(Problem.FENCED_LEADER_EPOCH, text)
        self.epochs.assign(leader_epoch, self.end_offset)
        self.latest_epoch = leader_epoch

    def fail(self, reason: str) -> None:
        """What is on disk is not known any more: nothing is appended and nothing unsynced is read.

        The next opening learns of it, because the operating system may show bytes that the disk does not have.
        """
        if self.failure is None:
            self.failure = reason
            for segment in self.segments:
                segment.known.doubt()
            leave_word(self.disk, self.directory)

    def abandon(self) -> None:
        """An end without care for what is not synced: the log is deleted."""
        self.failure = self.failure or "it was closed"
        for segment in self.segments:
            segment.known.doubt()
            segment.release()

    def failed_error(self) -> PenstockError:
        return PenstockError(Problem.STORAGE_FAILED, f"this log has failed and must be opened anew: {self.failure}")


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
