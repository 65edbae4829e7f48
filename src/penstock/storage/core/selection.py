"""Which of the bytes that were read from a segment answer a read. Per batch, so in few steps."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

import crc32c

from penstock.units import KIB
from penstock.wire.batch import CONTROL, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC

_PREFIX: Final = struct.Struct(">qiibIhi")
# The same without the CRC, and with the number of records at the end of a header.
_COUNTED: Final = struct.Struct(">qiib4xhi30xi")
_BASE_OFFSET: Final = struct.Struct(">q")
_CRC_START: Final = 21
# A read for each header is worth it if batches are as large as this on average, which is not told by the first few.
_LARGE_BYTES: Final = 16 * KIB
_FEW_BATCHES: Final = 4
# Room for what often follows on a header: a marker of a transaction, and the next header behind that.
_LOOK_BYTES: Final = 256


class Query(NamedTuple):
    """Batches from the one that holds `offset` on, all below `upto`, of these epochs.

    `gaps`: offsets may be missing between batches, because the segment was compacted. `end_offset`: what follows on the
    segment, or on what it held when the query was made if it is not closed.
    """

    offset: int
    upto: int
    max_bytes: int
    at_least_one: bool
    first_epoch: int
    last_epoch: int
    gaps: bool
    end_offset: int
    is_closed: bool


class Selection(NamedTuple):
    """Whole, checked batches are at [start, end), and at `end` one with `expected_offset` or behind it should follow.

    `fault`: what is at `end` is damaged. `needed`: nothing could be selected yet; so many bytes from `end` on might do.
    """

    start: int
    end: int
    expected_offset: int
    fault: bool = False
    needed: int = 0


def select(
    data: bytes | bytearray | memoryview, available: int, expected_offset: int, query: Query, *, is_behind: bool = False
) -> Selection:
    """`data` begins at a batch with base offset `expected_offset`; `available`: bytes from there to the segment's end.

    `is_behind`: it begins where a batch ends that `expected_offset` follows on, so offsets may be missing there too.
    Base offset and leader epoch are outside the CRC, so they are held against neighbours and known epochs.
    """
    view = memoryview(data)
    offset, upto, max_bytes, at_least_one, first_epoch, last_epoch, gaps, end_offset, is_closed = query
    size = len(data)
    start = -1
    position = 0
    while position + HEADER_BYTES <= size:
        base, length, epoch, magic, crc, _, delta = _PREFIX.unpack_from(data, position)
        end = position + length + LENGTH_OVERHEAD
        if magic != MAGIC or delta < 0 or end < position + HEADER_BYTES or end > available:
            return Selection(position if start < 0 else start, position, expected_offset, fault=True)
        following = base + delta + 1
        if base != expected_offset and not (
            gaps and (position or is_behind) and _is_gap(data, base, expected_offset, end, following)
        ):
            return Selection(position if start < 0 else start, position, expected_offset, fault=True)
        if following > end_offset and (is_closed or base < upto):
            # Behind the last batch there is none that tells a flipped bit from a gap.
            return Selection(position if start < 0 else start, position, expected_offset, fault=True)
        if base >= upto:
            break
        if following > offset:
            if start < 0:
                start = position
                if end - start > max_bytes and not at_least_one:
                    return Selection(start, start, expected_offset)
                if end > size:
                    return Selection(start, start, expected_offset, needed=end - position)
            elif end - start > max_bytes or end > size:
                break
            if not first_epoch <= epoch <= last_epoch or crc32c.crc32c(view[position + _CRC_START : end]) != crc:
                return Selection(start, position, expected_offset, fault=True)
        position, expected_offset = end, following
    else:
        if start < 0 and position < available:
            cut_short = position + HEADER_BYTES > available
            return Selection(position, position, expected_offset, fault=cut_short, needed=HEADER_BYTES)
    return Selection(position if start < 0 else start, position, expected_offset)


class LargeBatches(NamedTuple):
    """Whole batches in a row. `records` are those from the offset on that was asked for; markers are none."""

    start: int
    length: int
    end_offset: int
    records: int


def large_batches(
    read_cached: Callable[[int, int], bytes | bytearray | memoryview | None],
    position: int,
    available: int,
    expected_offset: int,
    query: Query,
) -> LargeBatches | None:
    """The same of bytes that are known to be right, by headers alone.

    At `position` is a batch with base offset `expected_offset`, at or before the one that is asked for. None if it
    would take more to read headers than to read all, if the first does not fit, or if anything is not as it should be.
    """
    offset, upto, max_bytes, _, first_epoch, last_epoch, _, _, _ = query
    end, start, looked_at = position + available, position, 0
    look_start, look_end = position, position
    look: bytes | bytearray | memoryview | None = None
    end_offset = records = 0
    while position + HEADER_BYTES <= end:
        looked_at += 1
        if looked_at > _FEW_BATCHES and position - start < looked_at * _LARGE_BYTES:
            return None
        if position + HEADER_BYTES > look_end:
            look_start, look_end = position, min(end, position + _LOOK_BYTES)
            look = read_cached(look_start, look_end - look_start)
        if look is None:
            return None
        base, length, epoch, magic, attributes, delta, count = _COUNTED.unpack_from(look, position - look_start)
        following = position + length + LENGTH_OVERHEAD
        if magic != MAGIC or delta < 0 or following < position + HEADER_BYTES or base != expected_offset:
            return None
        expected_offset = base + delta + 1
        if expected_offset <= offset:
            start = following
        elif expected_offset > upto or following > end or following - start > max_bytes:
            break
        elif not first_epoch <= epoch <= last_epoch:
            return None
        else:
            end_offset = expected_offset
            if not attributes & CONTROL:
                records += min(count, expected_offset - offset)
        position = following
    return LargeBatches(start, position - start, end_offset, records) if end_offset else None


def _is_gap(data: bytes | bytearray | memoryview, base: int, expected_offset: int, end: int, following: int) -> bool:
    """Compaction leaves gaps; a flipped bit of a base offset looks like one until the next batch is seen."""
    if base < expected_offset:
        return False
    return end + HEADER_BYTES > len(data) or int(_BASE_OFFSET.unpack_from(data, end)[0]) >= following
