"""The records of batches as columns, in Python alone: what the kernel is held to, and what there is without it."""

from __future__ import annotations

from array import array

from penstock.spark.column_buffers import MAX_DATA_BYTES, BinaryBuffers, ColumnBuffers, HeaderBuffers, Memory
from penstock.spark.core.row_columns import HEADERS, KEYS, OFFSETS, TIMESTAMP_TYPES, TIMESTAMPS, VALUES
from penstock.wire.batch import BatchHeader
from penstock.wire.varints import INT32_BITS, INT64_BITS, MalformedRecord, read_varint

_FURTHEST_MS = (2**63 - 1) // 1000
_SMALLEST_RECORD_BYTES = 7


class PureRecordColumns:
    """`append` batch by batch, then `take`. What was not asked for is skipped, not looked at.

    After MalformedRecord it is of no more use.
    """

    def __init__(self, wanted: int) -> None:
        """`wanted`: bits of core/row_columns.py."""
        self._wanted = wanted
        self._start()

    def _start(self) -> None:
        self.rows = 0
        self._keys = _Binary()
        self._values = _Binary()
        self._offsets = array("q")
        self._timestamps = array("q")
        self._timestamp_types = array("i")
        self._headers = _Headers()

    @property
    def data_bytes(self) -> int:
        """Of keys, values and headers so far."""
        headers = self._headers
        return sum(len(part.data) for part in (self._keys, self._values, headers.keys, headers.values))

    def append(self, payload: bytes | bytearray | memoryview, header: BatchHeader, first: int, end: int) -> None:
        """The records with offsets in [first, end) of a batch whose records are `payload`, unpacked.

        Raises MalformedRecord, and OverflowError if there would be more than Arrow can count: `take` before that.
        """
        if self.data_bytes + len(payload) > MAX_DATA_BYTES:
            raise OverflowError(f"{len(payload)} bytes more than {self.data_bytes} are too many for one Arrow batch")
        payload = bytes(payload)
        if not 0 <= header.record_count <= len(payload) // _SMALLEST_RECORD_BYTES:
            raise MalformedRecord(f"{len(payload)} bytes cannot hold {header.record_count} records")
        try:
            self._walk(payload, header, first, end)
        except IndexError:
            raise MalformedRecord("a record goes beyond the end of its batch") from None

    def _walk(self, payload: bytes, header: BatchHeader, first: int, end: int) -> None:
        previous_delta, position = -1, 0
        for _ in range(header.record_count):
            length, position = read_varint(payload, position, INT32_BITS)
            stop = position + length
            if length < 0 or stop > len(payload):
                raise MalformedRecord(f"a record of {length} bytes does not fit")
            timestamp_delta, position = read_varint(payload, position + 1, INT64_BITS)
            offset_delta, position = read_varint(payload, position, INT32_BITS)
            if position > stop:
                raise MalformedRecord("a record ends before its key")
            if not previous_delta < offset_delta <= header.last_offset_delta:
                text = f"offset delta {offset_delta} after {previous_delta}, of {header.last_offset_delta}"
                raise MalformedRecord(text)
            previous_delta = offset_delta
            offset = header.base_offset + offset_delta
            if offset >= end:
                return
            if offset >= first:
                self._add(payload, position, stop, offset, timestamp_delta, header)
            position = stop
        if position != len(payload):
            raise MalformedRecord(f"{len(payload) - position} bytes follow the last of {header.record_count} records")

    def _add(
        self, payload: bytes, position: int, stop: int, offset: int, timestamp_delta: int, header: BatchHeader
    ) -> None:
        wanted = self._wanted
        if wanted & (KEYS | VALUES | HEADERS):
            position = self._keys.add(payload, position, stop, bool(wanted & KEYS))
            if wanted & (VALUES | HEADERS):
                position = self._values.add(payload, position, stop, bool(wanted & VALUES))
            if wanted & HEADERS:
                position = self._headers.add(payload, position, stop)
                if position != stop:
                    raise MalformedRecord(f"a record ends {stop - position:+} bytes from where its length says")
        if wanted & OFFSETS:
            self._offsets.append(offset)
        if wanted & TIMESTAMPS:
            if header.is_log_append_time:
                milliseconds = header.max_timestamp
            else:
                milliseconds = _wrap(header.base_timestamp + timestamp_delta)
            if not -_FURTHEST_MS <= milliseconds <= _FURTHEST_MS:
                raise MalformedRecord(f"offset {offset} has timestamp {milliseconds}, too far for microseconds")
            self._timestamps.append(1000 * milliseconds)
        if wanted & TIMESTAMP_TYPES:
            self._timestamp_types.append(int(header.is_log_append_time))
        self.rows += 1

    def take(self) -> ColumnBuffers:
        """All that was appended since the last time."""
        wanted = self._wanted
        taken = ColumnBuffers(
            self.rows,
            self._keys.buffers() if wanted & KEYS else None,
            self._values.buffers() if wanted & VALUES else None,
            memoryview(self._offsets) if wanted & OFFSETS else None,
            memoryview(self._timestamps) if wanted & TIMESTAMPS else None,
            memoryview(self._timestamp_types) if wanted & TIMESTAMP_TYPES else None,
            self._headers.buffers() if wanted & HEADERS else None,
        )
        self._start()
        return taken


class _Binary:
    def __init__(self) -> None:
        self.data = bytearray()
        self._offsets = array("i", [0])
        self._nulls: list[int] = []

    @property
    def count(self) -> int:
        return len(self._offsets) - 1

    def add(self, payload: bytes, position: int, stop: int, wanted: bool) -> int:
        """The nullable bytes at `position`; returns where they end."""
        length, position = read_varint(payload, position, INT32_BITS)
        if length < 0:
            if length != -1:
                raise MalformedRecord(f"a length of {length}")
            self._nulls.append(self.count)
            end = position
        else:
            end = position + length
        if end > stop:
            raise MalformedRecord(f"a field of {length} bytes goes beyond its record")
        if wanted:
            self.data += payload[position:end]
            self._offsets.append(len(self.data))
        return end

    @property
    def last_is_null(self) -> bool:
        return bool(self._nulls) and self._nulls[-1] == self.count - 1

    def buffers(self) -> BinaryBuffers:
        return BinaryBuffers(_validity(self.count, self._nulls), len(self._nulls), memoryview(self._offsets), self.data)


class _Headers:
    def __init__(self) -> None:
        self.keys = _Binary()
        self.values = _Binary()
        self._offsets = array("i", [0])
        self._nulls: list[int] = []

    def add(self, payload: bytes, position: int, stop: int) -> int:
        count, position = read_varint(payload, position, INT32_BITS)
        # A header has two lengths of at least a byte each.
        if not 0 <= count <= (stop - position) // 2:
            raise MalformedRecord(f"{count} headers do not fit")
        for _ in range(count):
            position = self.keys.add(payload, position, stop, True)
            if self.keys.last_is_null:
                raise MalformedRecord("a header has no key")
            position = self.values.add(payload, position, stop, True)
        if not count:
            self._nulls.append(len(self._offsets) - 1)
        self._offsets.append(self.keys.count)
        return position

    def buffers(self) -> HeaderBuffers:
        validity = _validity(len(self._offsets) - 1, self._nulls)
        keys, values = self.keys.buffers(), self.values.buffers()
        return HeaderBuffers(validity, len(self._nulls), memoryview(self._offsets), self.keys.count, keys, values)


def _validity(rows: int, nulls: list[int]) -> Memory | None:
    if not nulls:
        return None
    bits = bytearray(b"\xff" * ((rows + 7) // 8))
    for row in nulls:
        bits[row // 8] &= ~(1 << row % 8)
    return bits


def _wrap(number: int) -> int:
    """To 64 bits, as every client computes."""
    return (number + 2**63) % 2**64 - 2**63
