"""Where in a log the bytes of a read are."""

from __future__ import annotations

from bisect import bisect_right

from penstock.errors import PenstockError, Problem
from penstock.storage.core.damage import Damage
from penstock.storage.core.leader_epochs import UNDEFINED
from penstock.storage.core.selection import Query
from penstock.storage.segment import Segment
from penstock.storage.slice import EMPTY, SearchedSlice, Slice, TailSlice
from penstock.storage.state import LogState


def find_slice(log: LogState, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> Slice:
    """See `Log.read`."""
    if not log.start_offset <= offset <= log.end_offset:
        text = f"offset {offset} is not between {log.start_offset} and {log.end_offset}"
        raise PenstockError(Problem.OFFSET_OUT_OF_RANGE, text)
    if log.failure is not None:
        if offset >= log.durable_offset:
            raise log.failed_error()
        upto = min(upto, log.durable_offset)
    if offset >= upto or offset >= log.end_offset:
        return EMPTY
    tail = log.tail_offsets
    # After a failed sync the page cache may hold what the disk never got, or no longer hold it: then all is checked.
    if tail and offset >= tail[0] and log.failure is None:
        return _in_tail(log, offset, max_bytes, upto, at_least_one)
    segment = log.segment_of(offset)
    if segment is None:
        # The files of these records are gone, which nothing in Penstock does.
        raise Damage(offset, log.segments[0].base_offset if log.segments else log.end_offset, 0, 0).error()
    _refuse_damage(segment, offset)
    if offset >= segment.next_offset:
        # Compaction took the end of this segment; but a gap is not passed over to what is lost behind it.
        for damage in segment.damage:
            if damage.next_offset > offset and damage.first_offset < upto:
                raise damage.error()
        following = log.segment_after(segment)
        if following is None or following.base_offset >= upto:
            return EMPTY
        segment, offset = following, following.base_offset
        _refuse_damage(segment, offset)
    log.warm(segment)
    query = _query(log, segment, offset, max_bytes, upto, at_least_one)
    return SearchedSlice(segment, query, log.settings.index_interval_bytes)


def _in_tail(log: LogState, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> Slice:
    """Among the newest batches, whose places are all known."""
    segment = log.segments[-1]
    offsets, positions = log.tail_offsets, log.tail_positions
    first = bisect_right(offsets, offset) - 1
    start = positions[first]
    # The first batch that may not be shown: the one at or across `upto`.
    stop = len(offsets) if upto >= log.end_offset else bisect_right(offsets, upto) - 1
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
    query = _query(log, segment, offset, max_bytes, upto, at_least_one)
    return TailSlice(segment, query, log.settings.index_interval_bytes, start, end - start)


def _query(log: LogState, segment: Segment, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> Query:
    first, latest = log.epochs.epoch_of(offset), UNDEFINED if log.latest_epoch is None else log.latest_epoch
    end_offset, is_closed = segment.next_offset, segment is not log.active
    return Query(offset, upto, max_bytes, at_least_one, first, latest, segment.gaps, end_offset, is_closed)


def _refuse_damage(segment: Segment, offset: int) -> None:
    if segment.damage and (damage := segment.damage_at(offset)) is not None:
        raise damage.error()
