"""The aborted transactions of a log, and the `.txnindex` of each segment with those whose markers are in it.

A file only repeats what the log says, but to read that again takes long and needs what was known of producers before.
So it is synced before a checkpoint says how many rows it has; what is behind the checkpoint is told by the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from penstock.disk.interface import Disk, read_whole
from penstock.storage.core.aborted import AbortedTransaction, AbortedTransactions, pack_rows, unpack_rows
from penstock.storage.core.log_files import TRANSACTION_INDEX_SUFFIX
from penstock.storage.index import IndexBlock


class Place(Protocol):
    """What has to be known of a segment."""

    @property
    def path(self) -> str: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int: ...


class SavedRows(NamedTuple):
    """What a file is known to have: its first rows, and nothing behind them. `covers`: as its last block says."""

    row_count: int = 0
    size_bytes: int = 0
    covers: int = 0


class LoadedRows(NamedTuple):
    rows: list[AbortedTransaction]
    # None: there is more in the file.
    saved: SavedRows | None


class TransactionIndexes:
    """Of one log. On the event loop's thread."""

    def __init__(self, rows: Iterable[AbortedTransaction] = (), saved: Mapping[str, SavedRows] | None = None) -> None:
        self.rows = AbortedTransactions(rows)
        self._saved = dict(saved or {})

    def count_in(self, segment: Place) -> int:
        return len(self.rows.between(segment.base_offset, segment.next_offset)) if self.rows else 0

    def take_blocks(self, segments: Sequence[Place]) -> list[IndexBlock]:
        """What the files lack; counted as saved from now on."""
        if not self.rows:
            self._saved.clear()
            return []
        blocks: list[IndexBlock] = []
        before, self._saved = self._saved, {}
        for segment in segments:
            places = self.rows.between(segment.base_offset, segment.next_offset)
            if not places:
                continue
            saved = before.get(segment.path)
            if saved is None or saved.row_count > len(places) or saved.covers > segment.size:
                # The log was truncated, or cut by a crash: its next checkpoint comes before anything is added. Behind a
                # block that covers more than the next one nothing counts.
                saved = SavedRows()
            lacking = self.rows.at(range(places.start + saved.row_count, places.stop))
            if lacking:
                content = pack_rows(lacking, segment.size)
                path = segment.path + TRANSACTION_INDEX_SUFFIX
                blocks.append(IndexBlock(path, saved.size_bytes, content, segment.size, must_sync=True))
                saved = SavedRows(len(places), saved.size_bytes + len(content), segment.size)
            self._saved[segment.path] = saved
        return blocks

    def forget_saved(self) -> None:
        """Something could not be written: the next blocks replace all files."""
        self._saved.clear()


def load_rows(disk: Disk, segment: Place, count: int, next_offset: int) -> LoadedRows | None:
    """The first `count` rows of a segment's file, all with markers below `next_offset`. None if it cannot be trusted.

    Blocking. What comes behind them was not in a checkpoint, so it may be of a log that was truncated since.
    """
    try:
        data = read_whole(disk, segment.path + TRANSACTION_INDEX_SUFFIX)
    except FileNotFoundError:
        return None
    stored = unpack_rows(data)
    if stored is None:
        return None
    rows = stored.rows[:count]
    lasts = [segment.base_offset - 1, *(row.last_offset for row in rows), next_offset]
    if len(rows) != count or not all(before < after for before, after in pairwise(lasts)):
        return None
    is_all = len(stored.rows) == count and stored.size == len(data)
    return LoadedRows(rows, SavedRows(count, len(data), stored.covers) if is_all else None)
