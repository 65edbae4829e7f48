"""Whether the indexes of a segment say what its log says: told of every batch in order, they are compared with it."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import msgspec

from penstock.storage.core.aborted import AbortedTransaction, unpack_rows
from penstock.storage.core.index_entries import OFFSETS, TIMESTAMPS, unpack_entries
from penstock.wire.batch import BatchHeader
from penstock.wire.control import Marker

NO_TIMESTAMP = -1


class Lie(NamedTuple):
    """`first_offset`: about which record."""

    first_offset: int
    text: str


class SparseIndexCheck:
    """Of an offset index or a time index. `is_damaged`: behind some block there is no telling what the file says."""

    def __init__(self, data: bytes, base_offset: int, *, of_times: bool) -> None:
        entries = unpack_entries(data, TIMESTAMPS if of_times else OFFSETS)
        self._keys: array[int] = entries.keys
        self._positions: array[int] = entries.positions
        self._base_offset = base_offset
        self._of_times = of_times
        self._place = 0
        self.covers = entries.covers
        self.is_damaged = entries.size != len(data)
        self.lies: list[Lie] = []

    def batch(self, position: int, header: BatchHeader, newest_ms: int) -> None:
        """`newest_ms`: of all records before it in the segment."""
        place, positions = self._place, self._positions
        if place == len(positions) or positions[place] > position:
            return
        while place < len(positions) and positions[place] < position:
            self._lie(header.base_offset, f"no batch begins at {positions[place]}, which it names")
            place += 1
        while place < len(positions) and positions[place] == position:
            self._compare(self._keys[place], position, header, newest_ms)
            place += 1
        self._place = place

    def skip_to(self, position: int) -> None:
        """What is before it is damaged, and cannot be compared with."""
        while self._place < len(self._positions) and self._positions[self._place] < position:
            self._place += 1

    def end(self, size: int, next_offset: int) -> None:
        """The log ends there; it may have grown since, and the index with it."""
        for position in self._positions[self._place :]:
            if position < size:
                self._lie(next_offset, f"no batch begins at {position}, which it names")

    def distrust(self) -> None:
        """Timestamps of damaged batches are not known, and an index may have counted them."""
        if self._of_times:
            self._place = len(self._positions)

    def _compare(self, key: int, position: int, header: BatchHeader, newest_ms: int) -> None:
        if self._of_times:
            if key != newest_ms:
                text = f"the newest record before {position} is of {newest_ms}, it says {key}"
                self._lie(header.base_offset, text)
        elif key + self._base_offset != header.base_offset:
            text = f"at {position} begins offset {header.base_offset}, it says {key + self._base_offset}"
            self._lie(header.base_offset, text)

    def _lie(self, first_offset: int, text: str) -> None:
        self.lies.append(Lie(first_offset, text))


class _Abort(NamedTuple):
    """A marker. `first_offset`: of what its transaction has in the segment; `is_whole`: it began there."""

    offset: int
    producer_id: int
    first_offset: int | None
    is_whole: bool


class SpanningAbort(msgspec.Struct, frozen=True, array_like=True):
    """An aborted transaction that began in an earlier segment, as the index says.

    `seen_offset`: what this segment has first of it, the marker at least.
    """

    offset: int
    producer_id: int
    said_offset: int
    seen_offset: int


class TransactionIndexCheck:
    """`count`: of rows that the checkpoint vouches for, with markers below `next_offset`."""

    def __init__(self, data: bytes, base_offset: int, count: int, next_offset: int, *, may_have_gaps: bool) -> None:
        stored = unpack_rows(data)
        self.is_damaged = stored is None or len(stored.rows) < count
        self._rows = [] if stored is None else stored.rows[:count]
        self._base_offset = base_offset
        self._next_offset = next_offset
        self._may_have_gaps = may_have_gaps
        # By producer, where what it has open in this segment begins; and who has ended something in it.
        self.open: dict[int, int] = {}
        self.ended: set[int] = set()
        self.spanning: list[SpanningAbort] = []
        self._aborts: list[_Abort] = []

    def batch(self, header: BatchHeader) -> None:
        """Of a transaction, and no marker."""
        self.open.setdefault(header.producer_id, header.base_offset)

    def marker(self, header: BatchHeader, marker: Marker) -> None:
        producer_id = header.producer_id
        first_offset = self.open.pop(producer_id, None)
        if not marker.is_commit and header.base_offset < self._next_offset:
            is_whole = producer_id in self.ended
            self._aborts.append(_Abort(header.base_offset, producer_id, first_offset, is_whole))
        self.ended.add(producer_id)

    def lies(self) -> list[Lie]:
        """When all batches were told of."""
        rows = {row.last_offset: row for row in self._rows}
        found = []
        for abort in self._aborts:
            row = rows.pop(abort.offset, None)
            if row is None:
                text = f"producer {abort.producer_id} aborted at offset {abort.offset}, which it does not know"
                found.append(Lie(abort.offset, text))
            elif (difference := self._difference(row, abort)) is not None:
                found.append(Lie(abort.offset, difference))
        for row in rows.values():
            text = f"it knows of an abort of producer {row.producer_id} at offset {row.last_offset}, where none is"
            found.append(Lie(row.last_offset, text))
        return found

    def _difference(self, row: AbortedTransaction, abort: _Abort) -> str | None:
        if row.producer_id != abort.producer_id:
            return f"producer {abort.producer_id} aborted at offset {abort.offset}, it says {row.producer_id}"
        began = abort.offset if abort.first_offset is None else abort.first_offset
        is_known = abort.is_whole or row.first_offset >= self._base_offset
        if not is_known and row.first_offset <= began:
            self.spanning.append(SpanningAbort(abort.offset, abort.producer_id, row.first_offset, began))
            return None
        is_right = row.first_offset == began if is_known and not self._may_have_gaps else row.first_offset <= began
        if is_right:
            return None
        return f"what was aborted at offset {abort.offset} begins at {began}, it says {row.first_offset}"
