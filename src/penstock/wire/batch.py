"""The v2 record batch as the broker sees it: a 61-byte header in front of opaque bytes.

Base offset and leader epoch lie outside the CRC, so the broker stamps them without touching the rest.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import crc32c

from penstock.wire.tuples import new_tuple

HEADER_BYTES: Final = 61
# Base offset and length: what a batch's length field does not count.
LENGTH_OVERHEAD: Final = 12
MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
# Length, attributes and record count, with what is between them.
_COUNTED: Final = struct.Struct(">8xi9xh34xi")


_CRC_START: Final = 21
_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
# Flags among a batch's attributes.
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The whole batch in bytes."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap around to 0 behind 2**31 - 1."""
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def compression(self) -> int:
        return self.attributes & _COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0


def read_header(data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The caller has made sure that HEADER_BYTES are there."""
    return new_tuple(BatchHeader, _HEADER.unpack_from(data, position))


def count_records(batches: bytes | bytearray | memoryview, first_offset: int) -> int:
    """Records of these whole batches for a reader that began at `first_offset`, in the first of them or right behind

    it: those before it are passed over. Markers of transactions are no records. Per batch, so in few steps.
    """
    records = 0
    (base_offset,) = _BASE_OFFSET.unpack_from(batches)
    if base_offset < first_offset and not (header := read_header(batches)).is_control:
        # Where compaction has left holes nobody knows how many of those that are left are before it.
        wanted = min(header.record_count, header.next_offset - first_offset)
        records = max(0, wanted) - header.record_count
    at, size, unpack = 0, len(batches), _COUNTED.unpack_from
    while at < size:
        length, attributes, count = unpack(batches, at)
        if not attributes & CONTROL:
            records += count
        at += length + LENGTH_OVERHEAD
    return records


def crc_of(batch: memoryview) -> int:
    """What the CRC of this one whole batch should be."""
    crc: int = crc32c.crc32c(batch[_CRC_START:])
    return crc


def crc_matches(batch: bytes | bytearray | memoryview, header: BatchHeader) -> bool:
    """`batch` is exactly one whole batch."""
    return crc_of(memoryview(batch)) == header.crc


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, 12, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, attributes: int, now_ms: int) -> None:
    """LogAppendTime lies inside the CRC, so here alone the broker computes it anew."""
    _ATTRIBUTES.pack_into(batch, 21, attributes | _LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, 35, now_ms)
    _CRC.pack_into(batch, 17, crc_of(memoryview(batch)))
