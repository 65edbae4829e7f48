"""One partition's log: append, read, sync. All of it runs on the event loop's thread unless it says otherwise."""

from __future__ import annotations

import errno
import logging
from bisect import bisect_right
from typing import NamedTuple

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, write_fully
from penstock.errors import PenstockError, Problem
from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.damage import Damage
from penstock.storage.core.leader_epochs import UNDEFINED, EpochEnd
from penstock.storage.core.producer_state import ProducedBatch, ProducerEntry
from penstock.storage.core.selection import Query
from penstock.storage.recovery import Recovery
from penstock.storage.segment import Segment
from penstock.storage.slice import EMPTY, SearchedSlice, Slice, TailSlice
from penstock.storage.state import CHECKPOINT_BATCHES, CHECKPOINT_BYTES, LogState
from penstock.storage.sync import SyncTicket
from penstock.wire.batch import BatchHeader, stamp, stamp_append_time

__all__ = ["Appended", "Log", "Slice", "SyncTicket"]

logger = logging.getLogger(__name__)

NO_APPEND_TIME = -1
# Offsets in a segment's index have 32 bits.
_MOST_OFFSETS = 2**31 - 1
# How many batches at the end are found without reading a file; half of them are let go at once.
_TAIL_BATCHES = 8192
# With flush.policy=os, bytes that only the operating system has, before a sync bounds what recovery must read.
_UNSYNCED_BYTES = 64 * 2**20


class Appended(NamedTuple):
    """A duplicate answers with what was appended before, which may not be committed yet."""

    base_offset: int
    next_offset: int
    log_append_time_ms: int
    duplicate: bool
    start_offset: int


class Log(LogState):
    @classmethod
    def open(cls, disk: Disk, directory: str, settings: LogSettings, *, now_ms: int) -> Log:
        """Makes a new log or recovers the one that is there. Blocking. What it shows is on disk when it returns."""
        try:
            if not disk.exists(directory):
                disk.make_directory(directory)
            files = CheckpointFiles(disk, directory)
            recovered = Recovery(disk, directory, settings, files, now_ms).run()
            log = cls(disk, directory, settings, files, recovered)
            if recovered.changed or recovered.report.noteworthy:
                for segment in recovered.changed:
                    segment.file().sync()
                disk.sync_directory(directory)
                log.checkpoint()
                for segment in recovered.changed:
                    segment.release_file()
        except OSError as error:
            raise PenstockError(Problem.STORAGE_FAILED, f"the log in {directory} cannot be opened: {error}") from error
        return log

    def append(self, batch: memoryview, header: BatchHeader, *, leader_epoch: int, now_ms: int) -> Appended:
        """One whole batch, writable, whose header and CRC the caller has checked; it is stamped in place.

        Raises PenstockError; then the log is as it was.
        """
        if self.failure is not None:
            raise self.failed_error()
        has_producer = header.producer_id >= 0
        if has_producer and (duplicate := self.producer_states.check(header)) is not None:
            return self._answer_duplicate(duplicate)
        settings = self.settings
        base_offset = self.end_offset
        size = len(batch)
        segment = self.active
        if (
            segment is None
            or segment.size + size > settings.segment_bytes
            or now_ms - segment.created_ms >= settings.segment_ms
            or base_offset + header.last_offset_delta - segment.base_offset > _MOST_OFFSETS
        ):
            segment = self._roll(now_ms)
        if leader_epoch != self.latest_epoch:
            self._begin_epoch(leader_epoch)
        stamp(batch, base_offset, leader_epoch)
        if settings.message_timestamp_type == "LogAppendTime":
            stamp_append_time(batch, header.attributes, now_ms)
            append_time_ms = timestamp_ms = now_ms
        else:
            append_time_ms, timestamp_ms = NO_APPEND_TIME, header.max_timestamp
        position = segment.size
        try:
            file = segment.file()
            written = file.write((batch,), position)
            if written != size:
                write_fully(file, [batch[written:]], position + written)
        except OSError as error:
            raise self._cut_back(segment, error) from error
        next_offset = base_offset + header.last_offset_delta + 1
        segment.grow(size, base_offset, next_offset, timestamp_ms, settings.index_interval_bytes)
        self.tail_offsets.append(base_offset)
        self.tail_positions.append(position)
        if len(self.tail_offsets) > _TAIL_BATCHES:
            del self.tail_offsets[: _TAIL_BATCHES // 2], self.tail_positions[: _TAIL_BATCHES // 2]
        self.end_offset = next_offset
        self.size_bytes += size
        self.unsaved_bytes += size
        self.unsaved_batches += 1
        if has_producer:
            self.producer_states.record(header, base_offset, timestamp_ms, now_ms)
        return Appended(base_offset, next_offset, append_time_ms, False, self.start_offset)

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

    def _begin_epoch(self, leader_epoch: int) -> None:
        if self.latest_epoch is not None and leader_epoch < self.latest_epoch:
            text = f"leader epoch {leader_epoch} is over, the log has records of {self.latest_epoch}"
            raise PenstockError(Problem.FENCED_LEADER_EPOCH, text)
        self.epochs.assign(leader_epoch, self.end_offset)
        self.latest_epoch = leader_epoch

    def _cut_back(self, segment: Segment, error: OSError) -> PenstockError:
        """A part of a batch may be in the file: nothing is appended behind it."""
        try:
            segment.file().truncate(segment.size)
        except OSError as second:
            self.fail(f"a failed write ({error}) could not be undone: {second}")
            return self.failed_error()
        return _refused(f"the batch could not be written to {self.directory}", error)

    def read(self, offset: int, max_bytes: int, *, upto: int, at_least_one: bool) -> Slice:
        """Where the batches are from the one that holds `offset` on, all below `upto`.

        Whole batches in at most `max_bytes`; with `at_least_one` the first one whatever its size. Empty if there is
        none. Raises PenstockError: OFFSET_OUT_OF_RANGE, CORRUPT_RECORDS, STORAGE_FAILED.
        """
        if not self.start_offset <= offset <= self.end_offset:
            text = f"offset {offset} is not between {self.start_offset} and {self.end_offset}"
            raise PenstockError(Problem.OFFSET_OUT_OF_RANGE, text)
        if self.failure is not None:
            if offset >= self.synced_offset:
                raise self.failed_error()
            upto = min(upto, self.synced_offset)
        if offset >= upto or offset >= self.end_offset:
            return EMPTY
        tail = self.tail_offsets
        if tail and offset >= tail[0]:
            return self._read_tail(offset, max_bytes, upto, at_least_one)
        segment = self.segment_of(offset)
        if segment is None:
            raise Damage(offset, self.segments[0].base_offset if self.segments else self.end_offset, 0, 0).error()
        if segment.damage and (damage := segment.damage_at(offset)) is not None:
            raise damage.error()
        if offset >= segment.next_offset:
            # Compaction took the end of this segment.
            following = self.segment_after(segment)
            if following is None or following.base_offset >= upto:
                return EMPTY
            segment, offset = following, following.base_offset
            if segment.damage and (damage := segment.damage_at(offset)) is not None:
                raise damage.error()
        self.warm(segment)
        return SearchedSlice(
            segment, self._query(offset, upto, max_bytes, at_least_one, segment), self.settings.index_interval_bytes
        )

    def _read_tail(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> Slice:
        segment = self.active
        assert segment is not None
        offsets, positions = self.tail_offsets, self.tail_positions
        first = bisect_right(offsets, offset) - 1
        start = positions[first]
        # The first batch that may not be shown: the one at or across `upto`.
        stop = len(offsets) if upto >= self.end_offset else bisect_right(offsets, upto) - 1
        if stop <= first:
            return EMPTY
        end = positions[stop] if stop < len(offsets) else segment.size
        if end - start > max_bytes:
            stop = bisect_right(positions, start + max_bytes) - 1
            if stop <= first:
                if not at_least_one:
                    return EMPTY
                stop = first + 1
            end = positions[stop] if stop < len(offsets) else segment.size
        query = self._query(offset, upto, max_bytes, at_least_one, segment)
        return TailSlice(segment, query, self.settings.index_interval_bytes, start, end - start)

    def _query(self, offset: int, upto: int, max_bytes: int, at_least_one: bool, segment: Segment) -> Query:
        latest = UNDEFINED if self.latest_epoch is None else self.latest_epoch
        return Query(offset, upto, max_bytes, at_least_one, self.epochs.epoch_of(offset), latest, segment.gaps)

    def begin_sync(self, now_ms: int | None = None) -> SyncTicket | None:
        """What has to be synced, for a pool thread to `run`; None if nothing, or if a ticket is out already.

        With `now_ms`, None as well while flush.policy=os does not ask for a sync yet.
        """
        if self.failure is not None or self.commit.in_flight or self.end_offset == self.synced_offset:
            return None
        then = None
        if self.unsaved_bytes >= CHECKPOINT_BYTES or self.unsaved_batches >= CHECKPOINT_BATCHES:
            then = self.gather_checkpoint()
        return self.commit.begin(self.active, self.end_offset, then)

    def finish_sync(self, ticket: SyncTicket) -> None:
        """The ticket has run without an error."""
        if not self.commit.finish(ticket) or self.failure is not None:
            return
        self.synced_offset = max(self.synced_offset, ticket.end_offset)
        if ticket.checkpoint_error is not None:
            self.checkpoint_failed()
            logger.warning(
                "log.checkpoint.failed", extra={"directory": self.directory, "why": str(ticket.checkpoint_error)}
            )

    def fail(self, reason: str) -> None:
        """A sync failed: what is on disk is not known any more. Nothing is appended and nothing unsynced is read."""
        self.failure = self.failure or reason

    def checkpoint(self) -> None:
        """Everything synced and written down, so that the next start reads nothing. Blocking. Raises OSError."""
        ticket = self.commit.begin(self.active, self.end_offset, self.gather_checkpoint())
        ticket.run()
        self.finish_sync(ticket)

    def close(self) -> None:
        """A clean end. Blocking."""
        if self.failure is None and (self.unsaved_batches or self.end_offset > self.synced_offset):
            try:
                self.checkpoint()
            except OSError as error:
                self.fail(f"the last sync failed: {error}")
        self.abandon()

    def abandon(self) -> None:
        """An end without care for what is not synced: the log is deleted."""
        self.fail("the log is closed")
        for segment in self.segments:
            segment.release()

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not beyond this one, and where it ended."""
        return self.epochs.end_offset_of(epoch, self.end_offset)

    def producers(self) -> list[ProducerEntry]:
        return self.producer_states.entries()

    def expire_producers(self, now_ms: int, older_than_ms: int) -> int:
        return self.producer_states.expire(now_ms, older_than_ms)


def _refused(what: str, error: OSError) -> PenstockError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what += ": the disk is full. Free some space or lower retention; writes go on when there is room"
    else:
        what += f": {error}"
    return PenstockError(Problem.STORAGE_FAILED, what)
