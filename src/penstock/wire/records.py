"""The records inside a batch, for the few places that look: compaction, timestamps, internal topics.

aiokafka's reader trusts lengths and decompresses without a limit, so reading is done here, every length against the
bytes left.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import crc32c

from penstock.errors import PenstockError, Problem
from penstock.wire.batch import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from penstock.wire.compression import compress, decompress
from penstock.wire.varints import INT32_BITS, INT64_BITS, MalformedRecord, put_varint, read_varint

NO_TIMESTAMP = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_CRC_START = 21

_LOG_APPEND_TIME = 0x08
_DELETE_HORIZON = 0x40

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
# Length, attributes, two deltas, two lengths and a count, each at least a byte: bounds a claimed number of records.
_SMALLEST_RECORD_BYTES = 7


class RecordHeader(NamedTuple):
    """The key is text in Kafka, but nothing makes a producer send valid UTF-8: bytes, so that nothing is lost."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


def has_delete_horizon(header: BatchHeader) -> bool:
    """The batch was compacted, and its base timestamp says when its deletion markers may go."""
    return bool(header.attributes & _DELETE_HORIZON)


def records_of(batch: bytes | bytearray | memoryview, *, limit_bytes: int) -> Iterator[Record]:
    """The records of exactly one batch, whose CRC the caller has checked; `limit_bytes` bounds them uncompressed.

    While iterating it raises PenstockError: INVALID_RECORD, CORRUPT_RECORDS (cannot be decompressed),
    RECORDS_TOO_LARGE, UNSUPPORTED_COMPRESSION, UNSUPPORTED_RECORD_FORMAT.
    """
    header = checked_header(batch)
    if header.record_count == 0 and len(batch) == HEADER_BYTES:
        # What compaction leaves of a batch to keep its producer's sequence; its compression says nothing.
        return
    payload = payload_of(batch, header, limit_bytes)
    with malformed_refused():
        yield from _parse(payload, header)


@contextmanager
def malformed_refused() -> Iterator[None]:
    """Around what walks a payload: what that raises becomes a PenstockError."""
    try:
        yield
    except IndexError:
        raise _invalid("a record goes beyond the end of its batch") from None
    except MalformedRecord as error:
        raise _invalid(str(error)) from None


def checked_header(batch: bytes | bytearray | memoryview) -> BatchHeader:
    """Of exactly one batch. Raises PenstockError."""
    if len(batch) < HEADER_BYTES:
        raise _invalid(f"a batch has at least {HEADER_BYTES} bytes, not {len(batch)}")
    header = read_header(batch)
    if header.magic != MAGIC:
        raise PenstockError(Problem.UNSUPPORTED_RECORD_FORMAT, f"record format {header.magic} is not supported")
    if header.size != len(batch):
        raise _invalid(f"the batch says that it has {header.size} bytes, but it has {len(batch)}")
    return header


def payload_of(batch: bytes | bytearray | memoryview, header: BatchHeader, limit_bytes: int) -> bytes | bytearray:
    """The records, unpacked. Raises PenstockError."""
    payload = decompress(header.compression, memoryview(batch)[HEADER_BYTES:], limit_bytes=limit_bytes)
    if not 0 <= header.record_count <= len(payload) // _SMALLEST_RECORD_BYTES:
        raise _invalid(f"{len(payload)} bytes cannot hold {header.record_count} records")
    return payload


def _parse(payload: bytes | bytearray, header: BatchHeader) -> Iterator[Record]:
    view = memoryview(payload)
    append_time = header.max_timestamp if header.is_log_append_time else None
    previous_delta = -1
    position = 0
    for _ in range(header.record_count):
        length, position = read_varint(payload, position, INT32_BITS)
        end = position + length
        if length < 0 or end > len(payload):
            raise MalformedRecord(f"a record of {length} bytes does not fit")
        timestamp_delta, position = read_varint(payload, position + 1, INT64_BITS)
        offset_delta, position = read_varint(payload, position, INT32_BITS)
        if not previous_delta < offset_delta <= header.last_offset_delta:
            raise MalformedRecord(f"offset delta {offset_delta} after {previous_delta}, of {header.last_offset_delta}")
        previous_delta = offset_delta
        key, position = _nullable_bytes(payload, view, position, end)
        value, position = _nullable_bytes(payload, view, position, end)
        if payload[position] == 0:
            headers: tuple[RecordHeader, ...] = ()
            position += 1
        else:
            headers, position = _headers(payload, view, position, end)
        if position != end:
            raise MalformedRecord(f"a record ends {end - position:+} bytes from where its length says")
        timestamp = append_time if append_time is not None else _wrap(header.base_timestamp + timestamp_delta)
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)
    if position != len(payload):
        raise MalformedRecord(f"{len(payload) - position} bytes follow the last of {header.record_count} records")


def _headers(
    payload: bytes | bytearray, view: memoryview, position: int, end: int
) -> tuple[tuple[RecordHeader, ...], int]:
    count, position = read_varint(payload, position, INT32_BITS)
    # A header has two lengths of at least a byte each.
    if not 0 <= count <= (end - position) // 2:
        raise MalformedRecord(f"{count} headers do not fit")
    headers = []
    for _ in range(count):
        key, position = _nullable_bytes(payload, view, position, end)
        if key is None:
            raise MalformedRecord("a header has no key")
        value, position = _nullable_bytes(payload, view, position, end)
        headers.append(RecordHeader(key, value))
    return tuple(headers), position


def _nullable_bytes(payload: bytes | bytearray, view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position, INT32_BITS)
    if length < 0:
        if length != -1:
            raise MalformedRecord(f"a length of {length}")
        return None, position
    stop = position + length
    if stop > end:
        raise MalformedRecord(f"a field of {length} bytes goes beyond its record")
    return bytes(view[position:stop]), stop


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    compression: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    is_log_append_time: bool = False,
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One batch. Offsets ascend from `base_offset` on and may have gaps; `last_offset` may lie behind the last record.

    `max_timestamp_ms` is the append time with `is_log_append_time`; else it is what the records say unless given.
    """
    first_timestamp = records[0].timestamp_ms if records else NO_TIMESTAMP
    if max_timestamp_ms is None:
        max_timestamp_ms = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
    if not records:
        compression, first_timestamp = 0, max_timestamp_ms
    base_timestamp = delete_horizon_ms if delete_horizon_ms is not None else first_timestamp
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    attributes = (
        (_LOG_APPEND_TIME if is_log_append_time else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
        | (_DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    payload = bytearray()
    for record in records:
        _put_record(payload, record, base_offset, base_timestamp)
    return seal_batch(
        payload,
        len(records),
        compression=compression,
        attributes=attributes,
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        leader_epoch=leader_epoch,
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def seal_batch(
    payload: bytes | bytearray,
    record_count: int,
    *,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    compression: int = 0,
    attributes: int = 0,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Records that are written already, as a batch. `last_offset_delta`: without it no offset is missing."""
    packed = compress(compression, payload) if compression else payload
    if last_offset_delta is None:
        last_offset_delta = record_count - 1
    batch = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        batch, 0, base_offset, HEADER_BYTES - LENGTH_OVERHEAD + len(packed), leader_epoch, MAGIC, 0,
        attributes | compression, last_offset_delta, base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch,
        base_sequence, record_count,
    )  # fmt: skip
    batch += packed
    _CRC.pack_into(batch, _CRC_POSITION, crc32c.crc32c(memoryview(batch)[_CRC_START:]))
    return batch


def _put_record(payload: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    body = bytearray(1)
    put_varint(body, _wrap(record.timestamp_ms - base_timestamp))
    put_varint(body, record.offset - base_offset)
    _put_nullable_bytes(body, record.key)
    _put_nullable_bytes(body, record.value)
    put_varint(body, len(record.headers))
    for key, value in record.headers:
        _put_nullable_bytes(body, key)
        _put_nullable_bytes(body, value)
    put_varint(payload, len(body))
    payload += body


def _wrap(number: int) -> int:
    """To 64 bits, as every client computes: so any timestamp can be told from any other by a delta."""
    return number if _INT64_MIN <= number <= _INT64_MAX else (number - _INT64_MIN) % 2**64 + _INT64_MIN


def _put_nullable_bytes(body: bytearray, value: bytes | None) -> None:
    if value is None:
        body.append(1)
    else:
        put_varint(body, len(value))
        body += value


def _invalid(text: str) -> PenstockError:
    return PenstockError(Problem.INVALID_RECORD, text)
