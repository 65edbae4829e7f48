"""The journal's bytes: a page that names the lap, then entries, each of which begins at a border of pages.

All numbers are big-endian. An entry: name of the lap, sequence, length of what follows, number of pieces, CRC-32C of
all that and of what follows; then each piece with its bytes behind it. The rest of the last page is zero.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import crc32c

from penstock.units import KIB, MIB

# No device and no page cache writes less at once, so what is in one page is not at risk when the next is written.
PAGE_BYTES = 4 * KIB
# One entry of small appends; more wait for the next.
ENTRY_BYTES = MIB
LAP_NAME_BYTES = 16

_MAGIC = b"PSJRNL01"
_LAP = struct.Struct(">8s16sQ")
_ENTRY = struct.Struct(">16sQII")
_PIECE = struct.Struct(">16siqiqqI")
_CRC = struct.Struct(">I")
ENTRY_HEAD_BYTES = _ENTRY.size + _CRC.size
PIECE_HEAD_BYTES = _PIECE.size
_ZEROS = bytes(PAGE_BYTES)


class Lap(NamedTuple):
    """One pass over a file. The name is random, so nothing that a client sends can be an entry of it."""

    name: bytes
    first_sequence: int


class Piece(NamedTuple):
    """Whole batches, one behind the other, and where in which log they are."""

    topic_id: UUID
    partition: int
    segment_base_offset: int
    generation: int
    position: int
    base_offset: int
    data: bytes


class Entry(NamedTuple):
    sequence: int
    pieces: list[Piece]
    # With all that fills its pages.
    size: int


def encode_lap(lap: Lap) -> bytes:
    head = _LAP.pack(_MAGIC, lap.name, lap.first_sequence)
    return (head + _CRC.pack(crc32c.crc32c(head))).ljust(PAGE_BYTES, b"\0")


def decode_lap(page: bytes) -> Lap | None:
    """None if it is not the first page of a lap."""
    if len(page) < _LAP.size + _CRC.size:
        return None
    magic, name, first_sequence = _LAP.unpack_from(page)
    (crc,) = _CRC.unpack_from(page, _LAP.size)
    if magic != _MAGIC or crc32c.crc32c(page[: _LAP.size]) != crc:
        return None
    return Lap(name, first_sequence)


def entry_size(data_bytes: int, pieces: int) -> int:
    """Of an entry with so many bytes in so many pieces, with all that fills its pages."""
    return _in_pages(ENTRY_HEAD_BYTES + pieces * PIECE_HEAD_BYTES + data_bytes)


def encode_entry(lap_name: bytes, sequence: int, pieces: Sequence[Piece]) -> bytes:
    parts = []
    for piece in pieces:
        parts.append(_PIECE.pack(piece.topic_id.bytes, *piece[1:6], len(piece.data)))
        parts.append(piece.data)
    body = b"".join(parts)
    head = _ENTRY.pack(lap_name, sequence, len(body), len(pieces))
    crc = _CRC.pack(crc32c.crc32c(body, crc32c.crc32c(head)))
    used = ENTRY_HEAD_BYTES + len(body)
    return b"".join((head, crc, body, _ZEROS[: _in_pages(used) - used]))


def stated_size(head: bytes, lap_name: bytes) -> int | None:
    """How many bytes an entry of that lap has if one begins with these; None if none does. Nothing is checked yet."""
    if len(head) < ENTRY_HEAD_BYTES:
        return None
    name, _, length, _ = _ENTRY.unpack_from(head)
    size = _in_pages(ENTRY_HEAD_BYTES + length)
    return size if name == lap_name and size <= ENTRY_BYTES else None


def decode_entry(data: bytes, lap_name: bytes) -> Entry | None:
    """`data` begins with the entry and may go on behind it. None if it is not all there as it was written."""
    size = stated_size(data, lap_name)
    if size is None:
        return None
    _, sequence, length, count = _ENTRY.unpack_from(data)
    body = memoryview(data)[ENTRY_HEAD_BYTES : ENTRY_HEAD_BYTES + length]
    (crc,) = _CRC.unpack_from(data, _ENTRY.size)
    if len(body) != length or crc32c.crc32c(body, crc32c.crc32c(data[: _ENTRY.size])) != crc:
        return None
    pieces: list[Piece] = []
    at = 0
    for _ in range(count):
        if len(body) - at < PIECE_HEAD_BYTES:
            return None
        topic_id, partition, segment, generation, position, base_offset, taken = _PIECE.unpack_from(body, at)
        at += PIECE_HEAD_BYTES
        if len(body) - at < taken:
            return None
        batches = bytes(body[at : at + taken])
        pieces.append(Piece(UUID(bytes=topic_id), partition, segment, generation, position, base_offset, batches))
        at += taken
    return Entry(sequence, pieces, size) if at == length else None


def _in_pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
