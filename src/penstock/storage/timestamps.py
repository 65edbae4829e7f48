"""Finding records by time. Any thread: looks at closed bytes only. Blocking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.storage.segment import Segment
from penstock.storage.unasked import to_scan
from penstock.units import MIB
from penstock.wire.batch import BatchHeader, crc_matches
from penstock.wire.records import records_of

# What one batch may unpack to while its records are looked at.
_RECORDS_LIMIT_BYTES = 32 * MIB


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, interval_bytes: int
) -> TimestampedOffset | None:
    """The first record from `start_offset` on that is not older than that."""
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms or segment.next_offset <= start_offset:
            continue
        position = segment.ready_indexes(interval_bytes).before_time(timestamp_ms)
        for found, header in segment.batches(position):
            if header.max_timestamp >= timestamp_ms and header.next_offset > start_offset:
                for record in _records_in(segment, found, header, start_offset):
                    if record.timestamp_ms >= timestamp_ms:
                        return record
    return None


def newest(segments: Sequence[Segment], start_offset: int, interval_bytes: int) -> TimestampedOffset | None:
    """The first of the records with the largest timestamp."""
    living = [segment for segment in segments if segment.next_offset > start_offset]
    timestamp_ms = max((segment.max_timestamp_ms for segment in living), default=-1)
    if timestamp_ms < 0:
        return None
    found = first_at_or_after(living, timestamp_ms, start_offset, interval_bytes)
    if found is not None:
        return found
    # Only records below the start were that new, or some that compaction took: of the others no more than may be newer
    # than what is found already.
    for segment in sorted(living, key=lambda segment: segment.max_timestamp_ms, reverse=True):
        if found is not None and segment.max_timestamp_ms < found.timestamp_ms:
            break
        for position, header in segment.batches(0):
            is_old = found is not None and header.max_timestamp < found.timestamp_ms
            if header.next_offset > start_offset and not is_old:
                records = _records_in(segment, position, header, start_offset)
                found = max(chain(records, [found] if found is not None else []), key=_newness, default=None)
    return found


def _newness(record: TimestampedOffset) -> tuple[int, int]:
    return record.timestamp_ms, -record.offset


def _records_in(segment: Segment, position: int, header: BatchHeader, start_offset: int) -> Iterator[TimestampedOffset]:
    """Those from `start_offset` on; none of a batch that is damaged."""
    batch = to_scan(segment).read(position, header.size)
    if not crc_matches(batch, header):
        return
    whole = TimestampedOffset(max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch)
    if header.is_log_append_time:
        yield whole
        return
    try:
        for record in records_of(batch, limit_bytes=_RECORDS_LIMIT_BYTES):
            if record.offset >= start_offset:
                yield TimestampedOffset(record.offset, record.timestamp_ms, header.leader_epoch)
    except PenstockError:
        # The producer's own contents cannot be read: nobody misses a record when the answer is the whole batch.
        yield whole
