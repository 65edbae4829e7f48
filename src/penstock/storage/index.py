"""A sparse index of one segment: for some batches, a key and where the batch begins.

The file only repeats what the log says. It grows by checked blocks, so whatever a crash left of it is either right
or not used.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from penstock.disk.interface import Disk, write_fully
from penstock.storage.core.index_entries import POSITIONS, pack_entries, unpack_entries
from penstock.units import MIB

# Below this size a power cut may take the index: rebuilding it costs less than a sync of each.
SYNCED_FROM_BYTES = 16 * MIB


class IndexBlock(NamedTuple):
    """What has to be written to an index file, and where; at position 0 it replaces everything that is there."""

    path: str
    position: int
    content: bytes
    covers: int
    # To make it again takes more than to read the log.
    must_sync: bool = False

    def write(self, disk: Disk) -> None:
        """Blocking."""
        file = disk.open(self.path, create=True)
        try:
            if self.position == 0:
                file.truncate(0)
            write_fully(file, [self.content], self.position)
            if self.must_sync or self.covers >= SYNCED_FROM_BYTES:
                file.sync()
        finally:
            file.close()


class SparseIndex:
    """Keys and positions ascend together.

    Grown and cut on the event loop's thread; `floor` may be asked on any.
    """

    __slots__ = ("_columns", "_saved_bytes", "_saved_entries", "covers", "path")

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        # The position in the log up to which the file tells everything.
        self.covers = 0
        self._columns = (array(kind), array(POSITIONS))
        self._saved_entries = 0
        self._saved_bytes = 0

    @classmethod
    def load(cls, disk: Disk, path: str, kind: str) -> SparseIndex:
        """As much of the file as can be trusted, which may be nothing: see `covers`."""
        index = cls(path, kind)
        try:
            file = disk.open(path)
        except FileNotFoundError:
            return index
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        entries = unpack_entries(data, kind)
        index._columns = (entries.keys, entries.positions)
        index.covers = entries.covers
        index._saved_entries = len(entries.keys)
        # Behind a damaged block nothing can be appended: the next save writes everything anew.
        index._saved_bytes = entries.size if entries.size == len(data) else 0
        return index

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, key: int, position: int) -> None:
        keys, positions = self._columns
        # Positions first: a reader on another thread finds a place by key.
        positions.append(position)
        keys.append(key)

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not beyond this one."""
        keys, positions = self._columns
        place = bisect_right(keys, key)
        return (keys[place - 1], positions[place - 1]) if place else None

    def positions_around(self, limit: int) -> tuple[int | None, int | None]:
        """The last position that is not behind this one, and the first that is."""
        positions = self._columns[1]
        place = bisect_right(positions, limit)
        return positions[place - 1] if place else None, positions[place] if place < len(positions) else None

    def first(self) -> tuple[int, int] | None:
        keys, positions = self._columns
        return (keys[0], positions[0]) if keys else None

    def last(self) -> tuple[int, int] | None:
        keys, positions = self._columns
        return (keys[-1], positions[-1]) if keys else None

    def cut(self, position: int) -> None:
        """Forget what lies at or behind `position` of the log."""
        keys, positions = self._columns
        place = bisect_left(positions, position)
        if place == len(keys) and self.covers <= position:
            return
        # Fresh arrays: other threads may be looking at these.
        self._columns = (keys[:place], positions[:place])
        self.forget_saved()

    def forget_saved(self) -> None:
        """The file is not what was thought: the next block replaces it."""
        self.covers = 0
        self._saved_entries = 0
        self._saved_bytes = 0

    def take_block(self, covers: int) -> IndexBlock | None:
        """What the file lacks to cover the log up to here; None if nothing. From now on counted as saved."""
        if covers == self.covers and self._saved_bytes:
            return None
        start = self._saved_entries if self._saved_bytes else 0
        keys, positions = (column[start:] for column in self._columns)
        block = IndexBlock(self.path, self._saved_bytes, pack_entries(keys, positions, covers), covers)
        self._saved_entries = len(self)
        self._saved_bytes += len(block.content)
        self.covers = covers
        return block
