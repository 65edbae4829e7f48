"""The entries of a sparse index file: keys, and where in the log the batches begin that have them."""

from __future__ import annotations

import sys
from array import array
from typing import NamedTuple

from penstock.storage.core.blocks import pack_block, unpack_blocks

# Offsets in their segment fit in 32 bits: a segment is closed before they do not. So do positions.
OFFSETS = "I"
TIMESTAMPS = "q"
POSITIONS = "I"


class IndexEntries(NamedTuple):
    """As much of a file as can be trusted: up to the first block that is damaged, which begins at `size`.

    `covers`: the position in the log up to which they tell everything.
    """

    keys: array[int]
    positions: array[int]
    covers: int
    size: int


def unpack_entries(data: bytes, kind: str) -> IndexEntries:
    """`kind`: of the keys. Nothing is covered by a file whose entries are out of order."""
    blocks = unpack_blocks(data)
    keys, positions = array(kind), array(POSITIONS)
    for payload in blocks.payloads:
        count = len(payload) // (keys.itemsize + positions.itemsize)
        if len(payload) != count * (keys.itemsize + positions.itemsize):
            return IndexEntries(array(kind), array(POSITIONS), 0, 0)
        keys.frombytes(payload[: count * keys.itemsize])
        positions.frombytes(payload[count * keys.itemsize :])
    if sys.byteorder == "big":
        keys.byteswap()
        positions.byteswap()
    if not (_ascends(keys) and _ascends(positions)):
        return IndexEntries(array(kind), array(POSITIONS), 0, 0)
    return IndexEntries(keys, positions, blocks.covers, blocks.size)


def pack_entries(keys: array[int], positions: array[int], covers: int) -> bytes:
    """One block; the arrays are used up."""
    if sys.byteorder == "big":
        keys.byteswap()
        positions.byteswap()
    return pack_block(keys.tobytes() + positions.tobytes(), covers)


def _ascends(column: array[int]) -> bool:
    return all(map(int.__le__, column, column[1:]))
