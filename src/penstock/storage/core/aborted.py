"""The aborted transactions of a log: what a reader of committed records has to be told, so that it leaves them out."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from penstock.storage.core.blocks import pack_block, unpack_blocks


class AbortedTransaction(NamedTuple):
    """From its first record to the marker that ended it.

    `last_stable_offset`: below it every transaction had ended by then, so what is aborted later begins behind it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_ROW = struct.Struct(">qqqq")

Columns = tuple["array[int]", "array[int]", "array[int]", "array[int]"]


class AbortedTransactions:
    """In the order of their markers; 32 bytes each, all in memory: a log has one for 150 bytes of its own at most.

    There is one for every abort marker, and as long as that is in the log, also if nothing else is left of the
    transaction or it never had anything: some clients take the next transaction that they were told of for ended when
    they meet a marker.
    """

    __slots__ = ("_columns",)

    def __init__(self, rows: Iterable[AbortedTransaction] = ()) -> None:
        self._columns: Columns = (array("q"), array("q"), array("q"), array("q"))
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self._columns[2])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(AbortedTransaction, *self._columns)

    def add(self, row: AbortedTransaction) -> None:
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def as_of_now(self) -> AbortedTransactions:
        """Keeps all that there are now, whatever is taken away later."""
        copy = AbortedTransactions()
        copy._columns = self._columns
        return copy

    def is_all_of(self, others: AbortedTransactions) -> bool:
        """As long as none of those was taken away since these were kept."""
        return self._columns is others._columns

    def overlapping(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those of which something may lie there."""
        producers, firsts, lasts, stables = self._columns
        found = []
        for place in range(bisect_left(lasts, start_offset), len(lasts)):
            if firsts[place] < end_offset:
                found.append(AbortedTransaction(producers[place], firsts[place], lasts[place], stables[place]))
            if stables[place] >= end_offset:
                break
        return found

    def ends_from(self, offset: int) -> bool:
        """Whether one of them ends there or behind it."""
        lasts = self._columns[2]
        return bool(lasts) and lasts[-1] >= offset

    def between(self, first_offset: int, next_offset: int) -> range:
        """Places of those whose markers lie there."""
        lasts = self._columns[2]
        return range(bisect_left(lasts, first_offset), bisect_left(lasts, next_offset))

    def at(self, places: range) -> list[AbortedTransaction]:
        return list(map(AbortedTransaction, *(column[places.start : places.stop] for column in self._columns)))

    def cut_end(self, end_offset: int) -> None:
        """Those whose markers lie there or behind it have not ended."""
        self._keep(slice(bisect_left(self._columns[2], end_offset)))

    def cut_start(self, start_offset: int) -> None:
        self._keep(slice(bisect_left(self._columns[2], start_offset), None))

    def drop(self, last_offsets: Collection[int]) -> None:
        """Those whose markers were at these offsets."""
        if last_offsets:
            self._columns = AbortedTransactions(row for row in self if row.last_offset not in last_offsets)._columns

    def _keep(self, places: slice) -> None:
        """Fresh columns: others may hold these."""
        producers, firsts, lasts, stables = self._columns
        self._columns = producers[places], firsts[places], lasts[places], stables[places]


def pack_rows(rows: Iterable[AbortedTransaction], covers: int) -> bytes:
    """A block of an index file; see `pack_block`."""
    return pack_block(b"".join(_ROW.pack(*row) for row in rows), covers)


class StoredRows(NamedTuple):
    """Those of an index file up to the first block that is damaged, which begins at `size`; the last one before it says

    how much of the segment it covers.
    """

    rows: list[AbortedTransaction]
    size: int
    covers: int


def unpack_rows(data: bytes) -> StoredRows | None:
    """None if it is the file of something else."""
    blocks = unpack_blocks(data)
    if any(len(payload) % _ROW.size for payload in blocks.payloads):
        return None
    rows = [AbortedTransaction(*row) for payload in blocks.payloads for row in _ROW.iter_unpack(payload)]
    return StoredRows(rows, blocks.size, blocks.covers)
