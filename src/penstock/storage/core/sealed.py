"""Small files with a checksum: garbage in them is noticed, never believed."""

from __future__ import annotations

import struct
from typing import TypeVar

import crc32c
import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_PREFIX = struct.Struct(">4sI")
_MAGIC = b"PSS1"


def seal(content: msgspec.Struct) -> bytes:
    payload = msgspec.msgpack.encode(content)
    return _PREFIX.pack(_MAGIC, crc32c.crc32c(payload)) + payload


def unseal(data: bytes, kind: type[T]) -> T | None:
    """None if it is not what `seal` made of a `kind`."""
    if len(data) < _PREFIX.size:
        return None
    magic, crc = _PREFIX.unpack_from(data)
    payload = memoryview(data)[_PREFIX.size :]
    if magic != _MAGIC or crc32c.crc32c(payload) != crc:
        return None
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except msgspec.MsgspecError:
        return None
