"""Bounded primitives: nothing is read, and nothing allocated, before the bytes left were asked.

Every decoder of client bytes is made of these. A count or length is checked against the bytes that are there, and
the number of elements in one request against `MAX_ELEMENTS`, because a few bytes on the wire become a Python object.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

from penstock.units import MIB
from penstock.wire.malformed import Malformed

Bytes = bytes | memoryview

# One decoded request may take 64 MiB. A frame of 4 MiB (the most that any API but Produce accepts) is held twice
# (receive buffer, bytes to decode from), and its text may take four times its size: one character beyond the basic
# plane makes Python store the whole string in four bytes each. That is 24 MiB; the other 40 MiB are for elements.
MAX_REQUEST_BYTES: Final = 4 * MIB
# The dearest element, with its fields, takes less than 400 bytes (tests/wire/test_memory.py measures it).
MAX_ELEMENTS: Final = 100_000
# Kafka's own limit, in either encoding.
MAX_STRING_BYTES: Final = 0x7FFF

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_VARINT_BYTES: Final = 5
_ZERO_UUID: Final = bytes(16)


class ElementBudget:
    """How many more elements this request may have."""

    __slots__ = ("_limit", "left")

    def __init__(self, limit: int = MAX_ELEMENTS) -> None:
        self._limit = limit
        self.left = limit

    def spend(self, count: int, where: str) -> None:
        self.left -= count
        if self.left < 0:
            raise Malformed(where, f"more than {self._limit} elements in one request")


def read_varint(data: Bytes, at: int, where: str) -> tuple[int, int]:
    """An unsigned 32-bit varint and the position behind it."""
    try:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return byte, at
        value = byte & 0x7F
        for shift in range(7, 7 * _VARINT_BYTES, 7):
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    raise Malformed(where, "varint does not fit into 32 bits")
                return value, at
    except IndexError:
        raise Malformed(where, "the bytes end inside a varint") from None
    raise Malformed(where, f"varint longer than {_VARINT_BYTES} bytes")


def read_size(data: Bytes, at: int, compact: bool, where: str) -> tuple[int, int]:
    """The length of bytes or the count of an array, -1 for null, and the position behind it.

    Not negative otherwise; whether so much follows is for the caller to check, who knows the size of an element.
    """
    if compact:
        size, at = read_varint(data, at, where)
        return size - 1, at
    try:
        (size,) = _INT32.unpack_from(data, at)
    except struct.error:
        raise Malformed(where, "the bytes end before its length") from None
    if size < -1:
        raise Malformed(where, f"negative length {size}")
    return size, at + 4


def read_string(data: Bytes, at: int, compact: bool, where: str) -> tuple[str | None, int]:
    if compact:
        size, at = read_varint(data, at, where)
        size -= 1
    else:
        try:
            (size,) = _INT16.unpack_from(data, at)
        except struct.error:
            raise Malformed(where, "the bytes end before its length") from None
        at += 2
    if size < 0:
        if size < -1:
            raise Malformed(where, f"negative length {size}")
        return None, at
    end = at + size
    if end > len(data):
        raise Malformed(where, f"length {size} with {len(data) - at} bytes left")
    if size > MAX_STRING_BYTES:
        raise Malformed(where, f"string of {size} bytes, at most {MAX_STRING_BYTES} are allowed")
    try:
        return str(data[at:end], "utf-8"), end
    except UnicodeDecodeError:
        raise Malformed(where, "not valid UTF-8") from None


def read_present_string(data: Bytes, at: int, compact: bool, where: str) -> tuple[str, int]:
    text, at = read_string(data, at, compact, where)
    if text is None:
        raise Malformed(where, "null, but it must be there")
    return text, at


def read_count(
    data: Bytes, at: int, compact: bool, least_bytes: int, budget: ElementBudget, where: str
) -> tuple[int, int]:
    """The count of an array whose elements take at least `least_bytes` each; -1 for null."""
    count, at = read_size(data, at, compact, where)
    if count * least_bytes > len(data) - at:
        raise Malformed(where, f"{count} elements announced with {len(data) - at} bytes left")
    if count > 0:
        budget.spend(count, where)
    return count, at


def skip_tagged_fields(data: Bytes, at: int, budget: ElementBudget, where: str) -> int:
    """Tagged fields of which this reader knows none."""
    count, at = read_varint(data, at, where)
    return skip_tags(data, at, count, -1, budget, where) if count else at


def skip_tags(data: Bytes, at: int, count: int, previous: int, budget: ElementBudget, where: str) -> int:
    for _ in range(count):
        tag, size, at = read_tag(data, at, previous, budget, where)
        previous = tag
        at += size
    return at


def read_tag(data: Bytes, at: int, previous: int, budget: ElementBudget, where: str) -> tuple[int, int, int]:
    """A field's tag, size and the position of its value, which lies within the bytes.

    Tags ascend (KIP-482), so none comes twice.
    """
    tag, at = read_varint(data, at, where)
    size, at = read_varint(data, at, where)
    budget.spend(1, where)
    if tag <= previous:
        raise Malformed(where, f"tagged field {tag} after {previous}")
    if size > len(data) - at:
        raise Malformed(where, f"tagged field {tag} of {size} bytes with {len(data) - at} bytes left")
    return tag, size, at


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID | None:
    """A topic's id; all zeros stand for none. Cached, because making one costs more than reading a whole request."""
    return None if raw == _ZERO_UUID else UUID(bytes=raw)
