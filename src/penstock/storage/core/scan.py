"""Reading a segment file batch by batch, and finding the next sound batch behind damage.

Waits as long as the file that it is given takes to read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Protocol

import crc32c

from penstock.units import KIB, MIB
from penstock.wire.batch import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, BatchHeader, crc_matches, read_header

SCAN_BYTES = 4 * MIB
SEEK_BYTES = 64 * KIB
ANY_OFFSET = -1
ANY_EPOCH = -1
NO_END = 2**63

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_START = 21
# What every batch has at fixed places: an offset below 2**56, a length and an offset delta that are not negative,
# the format and no unknown attribute. It looks ahead, so that matches may overlap.
_LIKELY_BATCH = re.compile(
    rb"(?=\x00.{7}[\x00-\x7f].{3}.{4}" + bytes([MAGIC]) + rb".{4}\x00.[\x00-\x7f].{3}.{34})", re.DOTALL
)


class Readable(Protocol):
    """A file, wherever it is."""

    def read(self, position: int, length: int, /) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""


def valid_batches(
    file: Readable,
    position: int,
    end: int,
    expected_offset: int,
    *,
    epoch: int = ANY_EPOCH,
    check_crc: bool = True,
    chunk_bytes: int = SCAN_BYTES,
    gap_at_end: bool = False,
    end_offset: int = NO_END,
    after: BatchHeader | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch; ends at the first that is not valid, or at `end`.

    Base offset and leader epoch are not covered by the batch's CRC, so they are checked against the neighbours.
    `gap_at_end`: a gap before the last batch is fine, because the log may have gaps. `end_offset`: no batch goes beyond
    it. `after`: of a whole batch that follows on `end`, in another file.
    """
    while position + HEADER_BYTES <= end:
        data = file.read(position, min(chunk_bytes, end - position))
        view = memoryview(data)
        at, available = 0, len(data)
        needed = HEADER_BYTES
        while at + HEADER_BYTES <= available:
            header = BatchHeader._make(_HEADER.unpack_from(data, at))
            stop = at + header.length + LENGTH_OVERHEAD
            if header.magic != MAGIC or header.last_offset_delta < 0 or stop < at + HEADER_BYTES:
                return
            if stop > available:
                needed = stop - at
                break
            if (header.base_offset != expected_offset or header.leader_epoch != epoch) and not _plausible(
                file, position + stop, end, header, expected_offset, epoch, gap_at_end, after
            ):
                return
            if header.base_offset + header.last_offset_delta >= end_offset:
                return
            if check_crc and crc32c.crc32c(view[at + _CRC_START : stop]) != header.crc:
                return
            yield position + at, header
            expected_offset = header.base_offset + header.last_offset_delta + 1
            epoch = header.leader_epoch
            at = stop
        if at == 0:
            if position + needed > end or available < min(chunk_bytes, end - position):
                return
            chunk_bytes = needed
        position += at


def _plausible(
    file: Readable,
    next_position: int,
    end: int,
    header: BatchHeader,
    expected_offset: int,
    epoch: int,
    gap_at_end: bool,
    after: BatchHeader | None,
) -> bool:
    """Whether a base offset or an epoch that jumps is real: if a bit of it flipped, the next batch says so.

    The next one may be torn, and then it says nothing of this one: so it speaks against it only if it is whole and can
    follow on what was before this one. Where this one's base offset is as expected, and none is missing in the segment,
    only a next one that follows on it is a witness.
    """
    if header.leader_epoch < epoch or (expected_offset != ANY_OFFSET and header.base_offset < expected_offset):
        return False
    has_gap = expected_offset not in (ANY_OFFSET, header.base_offset)
    following = file.read(next_position, HEADER_BYTES) if next_position + HEADER_BYTES <= end else b""
    without_witness = gap_at_end or not has_gap
    if len(following) == HEADER_BYTES:
        after, next_header = None, read_header(following)
    elif after is not None and next_position == end:
        next_header = after
    else:
        return without_witness
    if next_header.magic != MAGIC:
        return without_witness
    is_expected = header.base_offset == expected_offset
    if is_expected and not gap_at_end and next_header.base_offset != header.next_offset:
        return True
    if next_header.base_offset >= header.next_offset and next_header.leader_epoch >= header.leader_epoch:
        return True
    least_offset = 0 if expected_offset == ANY_OFFSET else expected_offset + header.last_offset_delta + 1
    if next_header.base_offset < least_offset or next_header.leader_epoch < epoch:
        return without_witness
    return without_witness and after is None and not _is_whole(file, next_position, end, next_header)


def _is_whole(file: Readable, position: int, end: int, header: BatchHeader) -> bool:
    size = header.size
    if size < HEADER_BYTES or position + size > end:
        return False
    batch = file.read(position, size)
    return len(batch) == size and crc_matches(batch, header)


def sound_batches(
    file: Readable, position: int, end: int, expected_offset: int, end_offset: int, chunk_bytes: int = SEEK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """The same without looking at what is inside, and going on behind damage.

    `end_offset`: where these batches end. One that goes beyond has a flipped bit in its base offset, which no batch
    behind it can tell if it is the last.
    """
    while position < end:
        for found, header in valid_batches(
            file,
            position,
            end,
            expected_offset,
            check_crc=False,
            chunk_bytes=chunk_bytes,
            gap_at_end=True,
            end_offset=end_offset,
        ):
            yield found, header
            position, expected_offset = found + header.size, header.next_offset
        if position < end:
            sound = next_valid_batch(file, position + 1, end, expected_offset, end_offset=end_offset)
            if sound is None:
                return
            position, expected_offset = sound[0], sound[1].base_offset


def next_valid_batch(
    file: Readable,
    position: int,
    end: int,
    expected_offset: int,
    chunk_bytes: int = SCAN_BYTES,
    *,
    end_offset: int = NO_END,
) -> tuple[int, BatchHeader] | None:
    """The first sound batch that begins at or behind `position`, wherever it begins; None if there is none.

    `end_offset`: no batch goes beyond it. In the damage may be what a client sent, and that may look like a batch.
    """
    while position + HEADER_BYTES <= end:
        data = file.read(position, min(chunk_bytes, end - position))
        for match in _LIKELY_BATCH.finditer(data):
            header = read_header(data, match.start())
            start = position + match.start()
            size = header.size
            if size < HEADER_BYTES or start + size > end or header.base_offset < expected_offset:
                continue
            if header.next_offset > end_offset:
                continue
            batch = file.read(start, size)
            if len(batch) == size and crc_matches(batch, header):
                return start, header
        # Overlap: a header may lie across the border.
        position += max(1, len(data) - HEADER_BYTES + 1)
    return None
