"""Whether every record of a batch has a key, as compacted topics need it, at a bounded cost."""

from __future__ import annotations

from penstock.errors import PenstockError, Problem
from penstock.units import KIB
from penstock.wire.batch import BatchHeader
from penstock.wire.records import checked_header, malformed_refused, payload_of
from penstock.wire.varints import INT32_BITS, INT64_BITS, MalformedRecord, read_varint

# So many are unpacked in the time in which one record is looked at.
_UNPACKED_BYTES_PER_RECORD = KIB


def check_keys(batch: bytes | bytearray | memoryview, *, limit_bytes: int, limit_elements: int) -> int:
    """PenstockError unless `records_of` can read the batch and every record has a key.

    It builds no records and looks at no more than `limit_elements` records and headers: for the event loop. Returns
    what it cost, counted in records: about a microsecond each.
    """
    header = checked_header(batch)
    if header.record_count > limit_elements:
        raise _too_many(limit_elements)
    payload = payload_of(batch, header, limit_bytes)
    with malformed_refused():
        elements = _walk(payload, header, limit_elements)
    return elements + (len(payload) // _UNPACKED_BYTES_PER_RECORD if header.compression else 0)


def _walk(payload: bytes | bytearray, header: BatchHeader, limit_elements: int) -> int:
    """Like `records_of`, and refuses what it refuses; as few operations per record as that takes.

    How many records and headers there are.
    """
    header_budget = limit_elements - header.record_count
    previous_delta, last_delta = -1, header.last_offset_delta
    position = 0
    for _ in range(header.record_count):
        length, position = read_varint(payload, position, INT32_BITS)
        end = position + length
        if length < 0 or end > len(payload):
            raise MalformedRecord(f"a record of {length} bytes does not fit")
        _, position = read_varint(payload, position + 1, INT64_BITS)
        delta, position = read_varint(payload, position, INT32_BITS)
        if not previous_delta < delta <= last_delta:
            raise MalformedRecord(f"offset delta {delta} after {previous_delta}, of {last_delta}")
        previous_delta = delta
        length, position = read_varint(payload, position, INT32_BITS)
        if length < 0:
            raise MalformedRecord("a compacted topic needs a key in every record")
        position = _skip_nullable_bytes(payload, position + length, end)
        count, position = read_varint(payload, position, INT32_BITS)
        if count:
            header_budget -= count
            if header_budget < 0:
                raise _too_many(limit_elements)
            position = _skip_headers(payload, position, end, count)
        if position != end:
            raise MalformedRecord(f"a record ends {end - position:+} bytes from where its length says")
    if position != len(payload):
        raise MalformedRecord(f"{len(payload) - position} bytes follow the last of {header.record_count} records")
    return limit_elements - header_budget


def _skip_headers(payload: bytes | bytearray, position: int, end: int, count: int) -> int:
    if count < 0:
        raise MalformedRecord(f"{count} headers do not fit")
    for _ in range(count):
        length, position = read_varint(payload, position, INT32_BITS)
        if length < 0:
            raise MalformedRecord("a header has no key")
        position = _skip_nullable_bytes(payload, position + length, end)
    return position


def _skip_nullable_bytes(payload: bytes | bytearray, position: int, end: int) -> int:
    length, position = read_varint(payload, position, INT32_BITS)
    if length < 0:
        if length != -1:
            raise MalformedRecord(f"a length of {length}")
        return position
    if position + length > end:
        raise MalformedRecord(f"a field of {length} bytes goes beyond its record")
    return position + length


def _too_many(limit_elements: int) -> PenstockError:
    return PenstockError(
        Problem.INVALID_RECORD,
        f"a batch for a compacted topic may have {limit_elements} records and headers, this one has more: "
        "send smaller batches",
    )
