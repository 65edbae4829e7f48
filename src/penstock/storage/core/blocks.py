"""Checked blocks: how index files grow by appending, and how what a crash left of them is told from garbage."""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

_HEADER = struct.Struct(">4sIQI")
_MAGIC = b"PSB1"


class Blocks(NamedTuple):
    """The payloads of all blocks up to the first that is damaged; `size` is where that one begins."""

    payloads: list[memoryview]
    covers: int
    size: int


def pack_block(payload: bytes, covers: int) -> bytes:
    """`covers`: the position in the log up to which this and the blocks before it tell everything."""
    return _HEADER.pack(_MAGIC, len(payload), covers, _checksum(payload, covers)) + payload


def unpack_blocks(data: bytes) -> Blocks:
    payloads: list[memoryview] = []
    view = memoryview(data)
    position = 0
    covered = 0
    while position + _HEADER.size <= len(data):
        magic, length, covers, checksum = _HEADER.unpack_from(data, position)
        start = position + _HEADER.size
        payload = view[start : start + length]
        if magic != _MAGIC or len(payload) != length or covers < covered or _checksum(payload, covers) != checksum:
            break
        payloads.append(payload)
        position, covered = start + length, covers
    return Blocks(payloads, covered, position)


def _checksum(payload: bytes | memoryview, covers: int) -> int:
    return int(crc32c.crc32c(payload, crc32c.crc32c(covers.to_bytes(8, "big"))))
