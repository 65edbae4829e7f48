"""One partition's log: append, read, sync. All of it runs on the event loop's thread unless it says otherwise."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, File, write_fully
from penstock.errors import PenstockError, Problem
from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.leader_epochs import EpochEnd
from penstock.storage.core.producer_state import ProducedBatch, ProducerEntry
from penstock.storage.deletion import Deletion, apply_retention
from penstock.storage.doubt import doubtful, forget_word, has_word, remove_mark
from penstock.storage.due import has_to_save, wants_sync
from penstock.storage.ended import end_transaction
from penstock.storage.gaps import says_gaps
from penstock.storage.journal_share import JournalShare
from penstock.storage.reading import find_slice
from penstock.storage.recovery import Recovery
from penstock.storage.restart import end_restart
from penstock.storage.room import give_back
from penstock.storage.segment import MOST_OFFSETS, Segment
from penstock.storage.slice import Slice, unreadable
from penstock.storage.stage import begin_stage, renew_stage
from penstock.storage.state import LogState
from penstock.storage.sync import SyncTicket
from penstock.storage.timestamps import TimestampedOffset, first_at_or_after, newest
from penstock.storage.truncation import settle_truncation, truncate
from penstock.storage.unasked import FRESH_MS, forget_end
from penstock.wire.batch import CONTROL, BatchHeader, stamp, stamp_append_time
from penstock.wire.tuples import new_tuple

__all__ = ["Appended", "Log", "Slice", "SyncTicket"]

NO_APPEND_TIME = -1
# How many batches at the end are found without reading a file; half of them are let go at once.
_TAIL_BATCHES = 4096


class Appended(NamedTuple):
    """A duplicate answers with what was appended before, which may not be committed yet."""

    base_offset: int
    next_offset: int
    log_append_time_ms: int
    duplicate: bool
    start_offset: int


class Log(LogState):
    @classmethod
    def open(
        cls, disk: Disk, directory: str, settings: LogSettings, *, now_ms: int, share: JournalShare | None = None
    ) -> Log:
        """Makes a new log or recovers the one that is there, also from the journal. Blocking.

        With flush.policy=acked, and if the journal had something of it, what it shows is in its files for good when
        it returns.
        """
        try:
            if not disk.exists(directory):
                disk.make_directory(directory)
            files = CheckpointFiles(disk, directory)
            recovered = Recovery(disk, directory, settings, files, now_ms, share).run()
            log = cls(disk, directory, settings, files, recovered, share)
            had_failed = has_word(disk, directory)
            # With flush.policy=os nobody waits for a sync, and a gigabyte to sync would hold up the start.
            wants_sync = settings.flush_policy == "acked" or recovered.was_journaled
            if had_failed:
                log.recovery.notes.append("a sync had failed, so what was behind the last checkpoint was written again")
            log.commit.distrust(doubtful(recovered.changed, None if had_failed else recovered.mark))
            if any(segment.gaps for segment in log.segments) and not says_gaps(disk, directory):
                # A power cut took the word and left what it was about. On a full disk the log goes on without it.
                with suppress(OSError):
                    log.commit.expect_gaps()
            if recovered.was_cut:
                # A power cut may have brought it back.
                remove_mark(disk, directory)
                settle_truncation(log)
            if recovered.is_new and share is not None and share.has_some:
                # The replica was moved away, and is back: that voids what the journal has of the earlier log.
                log.gather_checkpoint(for_good=True)()
                log.checkpoint_written(None)
            end_restart(log)
            if had_failed or (wants_sync and (recovered.changed or log.recovery.noteworthy)):
                log.checkpoint()
            if had_failed:
                forget_word(disk, directory)
        except OSError as error:
            raise PenstockError(Problem.STORAGE_FAILED, f"the log in {directory} cannot be opened: {error}") from error
        return log

    def append(self, batch: memoryview, header: BatchHeader, *, leader_epoch: int, now_ms: int) -> Appended:
        """One whole batch, writable, whose header and CRC the caller has checked; it is stamped in place.

        Raises PenstockError; then the log is as it was, and takes no later batch of the producer before this one.
        """
        if self.failure is not None:
            raise self.failed_error()
        has_producer = header.producer_id >= 0
        settings = self.settings
        base_offset = self.end_offset
        size = len(batch)
        segment = self.active
        try:
            if has_producer and (duplicate := self.producer_states.check(header)) is not None:
                return self._answer_duplicate(duplicate)
            if (
                segment is None
                or segment.size + size > settings.segment_bytes
                or now_ms - segment.created_ms >= settings.segment_ms
                or base_offset + header.last_offset_delta - segment.base_offset > MOST_OFFSETS
            ):
                segment = self._roll(now_ms)
            try:
                file = segment.file()
            except OSError as error:
                raise _refused(f"the log in {self.directory} cannot be written to", error) from error
            if leader_epoch != self.latest_epoch:
                self.begin_epoch(leader_epoch)
            stamp(batch, base_offset, leader_epoch)
            if settings.message_timestamp_type == "LogAppendTime":
                stamp_append_time(batch, header.attributes, now_ms)
                append_time_ms = timestamp_ms = now_ms
            else:
                append_time_ms, timestamp_ms = NO_APPEND_TIME, header.max_timestamp
            position = segment.size
            if now_ms - self.last_append_ms > FRESH_MS:
                forget_end(segment.known, file, position)
            try:
                written = file.write((batch,), position)
                if written != size:
                    write_fully(file, [batch[written:]], position + written)
            except OSError as error:
                raise self._cut_back(file, position, error) from error
        except PenstockError:
            self.producer_states.refuse(header, now_ms)
            raise
        next_offset = base_offset + header.last_offset_delta + 1
        segment.grow(size, base_offset, next_offset, timestamp_ms, settings.index_interval_bytes)
        self.tail_offsets.append(base_offset)
        self.tail_positions.append(position)
        if len(self.tail_offsets) > _TAIL_BATCHES:
            del self.tail_offsets[: _TAIL_BATCHES // 2], self.tail_positions[: _TAIL_BATCHES // 2]
        if base_offset == self.synced_offset:
            self.unsynced_since_ms = now_ms
        self.last_append_ms = now_ms
        self.end_offset = next_offset
        self.size_bytes += size
        self.appended_bytes += size
        self.appended_batches += 1
        if self.stage is not None and not self.stage.add(batch, size):
            self.stage = None
        if has_producer:
            if header.attributes & CONTROL:
                end_transaction(self, batch, header, now_ms)
            else:
                self.producer_states.record(header, base_offset, timestamp_ms, now_ms)
        return new_tuple(Appended, (base_offset, next_offset, append_time_ms, False, self.start_offset))

    def _answer_duplicate(self, duplicate: ProducedBatch) -> Appended:
        stamped = self.settings.message_timestamp_type == "LogAppendTime"
        append_time_ms = duplicate.timestamp_ms if stamped else NO_APPEND_TIME
        return Appended(duplicate.base_offset, duplicate.next_offset, append_time_ms, True, self.start_offset)

    def _roll(self, now_ms: int) -> Segment:
        if self.active is not None and self.active.size == 0:
            # Nothing in it yet that could be too old or too much.
            self.active.created_ms = now_ms
            if self.active.base_offset == self.end_offset:
                return self.active
        try:
            return self.roll(now_ms)
        except OSError as error:
            raise _refused(f"a new segment in {self.directory} cannot be made", error) from error

    def _cut_back(self, file: File, size: int, error: OSError) -> PenstockError:
        """A part of a batch may be in the file: nothing is appended behind it."""
        try:
            file.truncate(size)
        except OSError as second:
            self.fail(f"a failed write ({error}) could not be undone: {second}")
            return self.failed_error()
        return _refused(f"the batch could not be written to {self.directory}", error)

    def read(self, offset: int, max_bytes: int, *, upto: int, at_least_one: bool) -> Slice:
        """Where the batches are from the one that holds `offset` on, all below `upto`.

        Whole batches in at most `max_bytes`; with `at_least_one` the first one whatever its size. Empty if there is
        none. Raises PenstockError: OFFSET_OUT_OF_RANGE, CORRUPT_RECORDS, STORAGE_FAILED.
        """
        try:
            return find_slice(self, offset, max_bytes, upto, at_least_one)
        except OSError as error:
            raise unreadable(self.directory, error) from error

    def begin_sync(self, now_ms: int | None = None, *, checkpoint: bool = False) -> SyncTicket | None:
        """What has to be synced, for a pool thread to `run`; None if nothing, or if a ticket is out already.

        With `now_ms`, None as well while flush.policy=os does not ask for a sync yet. With `checkpoint`, and when the
        log has fallen idle, also what only the next start would miss. Raises OSError; then nothing has changed.
        """
        if self.failure is not None or self.commit.in_flight or not wants_sync(self, now_ms, checkpoint=checkpoint):
            return None
        unsaved = has_to_save(self, now_ms, checkpoint=checkpoint)
        if unsaved and now_ms is not None:
            self.tried_checkpoint_ms = now_ms
        then = self.gather_checkpoint() if unsaved or self.checkpoint_is_due() else None
        try:
            room = self.growth.at_sync(self.disk, self.active, self.settings, self.appended_bytes, self.last_append_ms)
            ticket = self.commit.begin(self.active, self.end_offset, self.latest_epoch, then, room)
        except OSError as error:
            if then is not None:
                self.checkpoint_written(error)
            raise
        self.synced_bytes = self.appended_bytes
        begin_stage(self)
        return ticket

    def finish_sync(self, ticket: SyncTicket) -> None:
        """The ticket has run without an error."""
        synced = self.commit.finish(ticket)
        if synced is None or self.failure is not None:
            return
        for segment in synced:
            give_back(segment)
            self.warm(segment)
        self.synced_offset = max(self.synced_offset, ticket.end_offset)
        if self.synced_offset > self.durable_offset:
            self.durable_offset, self.durable_bytes = self.synced_offset, self.synced_bytes
        renew_stage(self)
        # Behind the last sync of a burst, which is one of many bytes, comes one for a checkpoint.
        is_over = ticket.has_checkpoint or not self.growth.is_fast
        if is_over and self.active is not None and self.end_offset == self.synced_offset:
            give_back(self.active)
        if ticket.has_checkpoint:
            self.checkpoint_written(ticket.checkpoint_error)

    def checkpoint(self) -> None:
        """Everything synced and written down, so that the next start reads nothing. Blocking. Raises OSError."""
        ticket = self.commit.begin(self.active, self.end_offset, self.latest_epoch, self.gather_checkpoint())
        ticket.run()
        self.finish_sync(ticket)

    def close(self) -> str | None:
        """A clean end. Blocking. If it could not be one, why: the disk may not have all that the log took."""
        if self.failure is None and (self.has_unsaved or self.end_offset > self.synced_offset):
            try:
                self.checkpoint()
            except OSError as error:
                self.fail(f"the last sync failed: {error}")
        failure = self.failure
        self.abandon()
        return failure

    def truncate_to(self, offset: int) -> None:
        """Takes back everything from the batch on that holds `offset`; durable when it returns.

        The log then ends at `offset` or before it, but not before its start. Blocking, and nothing else may use the log
        meanwhile, deletions and compaction at work on it included; those that wait go on as they should afterwards.
        Raises PenstockError; then the log has failed, and the next opening has it as it was or as it should be.
        """
        if self.failure is not None:
            raise self.failed_error()
        truncate(self, offset)

    def write_start(self, before_offset: int) -> None:
        """Writes down that the log starts at `before_offset`, durably; `move_start` then makes it so.

        Blocking; on any thread. Raises PenstockError.
        """
        if self.failure is not None:
            raise self.failed_error()
        try:
            # A truncation may be under way in another thread.
            is_written = self.files.write_start_offset(before_offset, lambda: 0 <= before_offset <= self.end_offset)
        except OSError as error:
            raise _refused("the new start of the log cannot be written down", error) from error
        if not is_written:
            text = f"offset {before_offset} is not between 0 and {self.end_offset}"
            raise PenstockError(Problem.OFFSET_OUT_OF_RANGE, text)

    def delete_records(self, before_offset: int) -> int:
        """Both at once. Blocking."""
        self.write_start(before_offset)
        return self.move_start(before_offset)

    def apply_retention(self, now_ms: int, limit_offset: int | None = None) -> Deletion | None:
        """Takes out segments that have outlived retention, all below `limit_offset` (the high watermark).

        What is left to do on disk is for a pool thread; call again later for files whose delay is not over yet.
        """
        if self.failure is not None:
            return None
        try:
            return apply_retention(self, now_ms, self.end_offset if limit_offset is None else limit_offset)
        except OSError as error:
            raise _refused(f"a new segment in {self.directory} cannot be made", error) from error

    def roll_if_due(self, now_ms: int) -> None:
        """Closes a segment that is too old, also if nothing is appended any more."""
        active = self.active
        oldest_ms = self.settings.segment_ms
        if "compact" in self.settings.cleanup_policy:
            # Only closed segments are compacted.
            oldest_ms = min(oldest_ms, self.settings.max_compaction_lag_ms)
        if active is not None and active.size and now_ms - active.created_ms >= oldest_ms:
            self._roll(now_ms)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record that is not older than that. Blocking; on any thread. Raises PenstockError."""
        interval_bytes = self.settings.index_interval_bytes
        return _look(
            self, lambda segments: first_at_or_after(segments, timestamp_ms, self.start_offset, interval_bytes)
        )

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first of the newest records. Blocking; on any thread. Raises PenstockError."""
        interval_bytes = self.settings.index_interval_bytes
        return _look(self, lambda segments: newest(segments, self.start_offset, interval_bytes))

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not beyond this one, and where it ended."""
        return self.epochs.end_offset_of(epoch, self.end_offset)

    def producers(self) -> list[ProducerEntry]:
        return self.producer_states.entries()

    def expire_producers(self, now_ms: int, older_than_ms: int) -> int:
        return self.producer_states.expire(now_ms, older_than_ms)


def _look(log: Log, search: Callable[[list[Segment]], TimestampedOffset | None]) -> TimestampedOffset | None:
    while True:
        segments = list(log.segments)
        try:
            return search(segments)
        except OSError as error:
            # A file that retention or compaction took away meanwhile is not missed: look again without it.
            if not isinstance(error, FileNotFoundError) or segments == log.segments:
                raise unreadable(log.directory, error) from error


def _refused(what: str, error: OSError) -> PenstockError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what += ": the disk is full. Free some space or lower retention; writes go on when there is room"
    else:
        what += f": {error}"
    return PenstockError(Problem.STORAGE_FAILED, what)
