"""Appending what another replica has: whole batches with their offsets, epochs and timestamps, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.disk.interface import write_fully
from penstock.errors import PenstockError, Problem
from penstock.storage.ended import end_transaction
from penstock.storage.segment import MOST_OFFSETS, Segment
from penstock.storage.state import LogState
from penstock.storage.unasked import FRESH_MS, forget_end
from penstock.wire.batch import CONTROL, BatchHeader

# As many as a leader's log keeps.
_TAIL_BATCHES = 4096


class _Run(NamedTuple):
    """Batches that go into one segment, with one write."""

    segment: Segment
    data: memoryview
    headers: Sequence[BatchHeader]


def append_replicated(log: LogState, data: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
    """`headers` are those of the batches in `data`, one behind the other, all checked, none below the log's end.

    Offsets may be missing between them where the leader's log was compacted. Raises PenstockError: then some in front
    are there, or none, and nothing of the one behind them.
    """
    if log.failure is not None:
        raise log.failed_error()
    if not log.commit.says_gaps and _has_gaps(log.end_offset, headers):
        _expect_gaps(log)
    at, first = 0, 0
    while first < len(headers):
        segment = _segment_for(log, headers[first], now_ms)
        count, size = _fitting(log, segment, headers, first)
        run = _Run(segment, data[at : at + size], headers[first : first + count])
        _write(log, run, now_ms)
        _record(log, run, now_ms)
        at, first = at + size, first + count


def _has_gaps(end_offset: int, headers: Sequence[BatchHeader]) -> bool:
    for header in headers:
        if header.base_offset != end_offset:
            return True
        end_offset = header.next_offset
    return False


def _expect_gaps(log: LogState) -> None:
    try:
        log.commit.expect_gaps()
    except OSError as error:
        text = f"that records are missing between others cannot be written down in {log.directory}: {error}"
        raise PenstockError(Problem.STORAGE_FAILED, text) from error


def _segment_for(log: LogState, header: BatchHeader, now_ms: int) -> Segment:
    segment = log.active
    if segment is not None and not segment.size:
        if segment.base_offset == _base_offset_for(log, header):
            segment.created_ms = now_ms
            return segment
        _drop_empty(log, segment)
    elif segment is not None and _fits(log, segment, segment.size, header):
        is_old = now_ms - segment.created_ms >= log.settings.segment_ms
        if not is_old:
            return segment
    end_offset = log.end_offset
    try:
        log.end_offset = _base_offset_for(log, header)
        return log.roll(now_ms)
    except OSError as error:
        text = f"a new segment in {log.directory} cannot be made: {error}"
        raise PenstockError(Problem.STORAGE_FAILED, text) from error
    finally:
        log.end_offset = end_offset


def _base_offset_for(log: LogState, header: BatchHeader) -> int:
    """Of a segment that begins with this batch: where the log ends, also if the batch lies behind a gap.

    So recovery does not take a segment that is missing for a gap. It knows a gap that no index can span.
    """
    return log.end_offset if header.last_offset - log.end_offset <= MOST_OFFSETS else header.base_offset


def _drop_empty(log: LogState, segment: Segment) -> None:
    """Nothing was ever in it, and what comes now does not begin where it does."""
    log.segments.remove(segment)
    log.commit.drop([segment])
    log.active = None
    log.stage = None
    log.forget_tail()
    segment.release()
    with suppress(OSError):
        segment.remove_files()


def _fits(log: LogState, segment: Segment, size: int, header: BatchHeader) -> bool:
    return size + header.size <= log.settings.segment_bytes and header.last_offset - segment.base_offset <= MOST_OFFSETS


def _fitting(log: LogState, segment: Segment, headers: Sequence[BatchHeader], first: int) -> tuple[int, int]:
    """How many from `first` on go into the segment, one at least, and their bytes."""
    count, size = 1, headers[first].size
    for header in headers[first + 1 :]:
        if not _fits(log, segment, segment.size + size, header):
            break
        count, size = count + 1, size + header.size
    return count, size


def _write(log: LogState, run: _Run, now_ms: int) -> None:
    position = run.segment.size
    try:
        file = run.segment.file()
        if now_ms - log.last_append_ms > FRESH_MS:
            forget_end(run.segment.known, file, position)
        written = file.write((run.data,), position)
        if written != len(run.data):
            write_fully(file, [run.data[written:]], position + written)
    except OSError as error:
        try:
            run.segment.file().truncate(position)
        except OSError as second:
            log.fail(f"a failed write ({error}) could not be undone: {second}")
            raise log.failed_error() from second
        if not position and run.segment.base_offset != log.end_offset:
            _drop_empty(log, run.segment)
        text = f"what the leader sent could not be written to {log.directory}: {error}"
        raise PenstockError(Problem.STORAGE_FAILED, text) from error


def _record(log: LogState, run: _Run, now_ms: int) -> None:
    segment, interval_bytes, at = run.segment, log.settings.index_interval_bytes, 0
    if log.end_offset == log.synced_offset:
        log.unsynced_since_ms = now_ms
    for header in run.headers:
        base_offset, size, position = header.base_offset, header.size, segment.size
        if base_offset != log.end_offset:
            segment.gaps = True
            # Places in the tail are found by offset, and none may be missing there.
            log.forget_tail()
        if header.leader_epoch != log.latest_epoch:
            # Behind a gap `assign` does not see that an epoch wrote nothing.
            log.epochs.cut_end(log.end_offset)
            log.epochs.assign(header.leader_epoch, base_offset)
            log.latest_epoch = log.epochs.latest
        segment.grow(size, base_offset, header.next_offset, header.max_timestamp, interval_bytes)
        log.tail_offsets.append(base_offset)
        log.tail_positions.append(position)
        if log.stage is not None and not log.stage.add(run.data[at : at + size], size):
            log.stage = None
        if header.producer_id >= 0:
            if header.attributes & CONTROL:
                end_transaction(log, run.data[at : at + size], header, now_ms)
            else:
                log.producer_states.record(header, base_offset, header.max_timestamp, now_ms)
        log.end_offset = header.next_offset
        at += size
    if len(log.tail_offsets) > _TAIL_BATCHES:
        excess = len(log.tail_offsets) - _TAIL_BATCHES // 2
        del log.tail_offsets[:excess], log.tail_positions[:excess]
    log.last_append_ms = now_ms
    log.size_bytes += len(run.data)
    log.appended_bytes += len(run.data)
    log.appended_batches += len(run.headers)
