"""The pieces that answers are made of, appended to what is there already."""

from __future__ import annotations

import struct
from typing import Final

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
# Length, correlation id, and in header version 1 an empty set of tagged fields.
_START_0: Final = struct.Struct(">4xi")
_START_1: Final = struct.Struct(">4xix")


def start_response(header_version: int, correlation_id: int) -> bytearray:
    """Room for the length prefix, and the header."""
    return bytearray((_START_1 if header_version else _START_0).pack(correlation_id))


def finish_response(start: bytearray, whole_bytes: int) -> None:
    """Once all is there: the length prefix, which does not count itself."""
    _INT32.pack_into(start, 0, whole_bytes - _INT32.size)


def append_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_count(out: bytearray, count: int, compact: bool) -> None:
    """Of elements or bytes; -1 stands for null."""
    if compact:
        append_varint(out, count + 1)
    else:
        out += _INT32.pack(count)


def append_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        raw = value.encode()
        out += _INT16.pack(len(raw))
        out += raw


def append_compact_string(out: bytearray, value: str | None) -> None:
    append_compact_bytes(out, None if value is None else value.encode())


def append_compact_bytes(out: bytearray, value: bytes | bytearray | memoryview | None) -> None:
    if value is None:
        out.append(0)
    else:
        append_varint(out, len(value) + 1)
        out += value
