"""One of the journal's files: its current lap, and which logs have something in it that only it has. Blocking."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from uuid import UUID

from penstock.disk.interface import Disk, File, write_fully
from penstock.storage.core.journal_entry import (
    LAP_NAME_BYTES,
    PAGE_BYTES,
    Entry,
    Lap,
    decode_entry,
    decode_lap,
    encode_lap,
    stated_size,
)
from penstock.storage.state import LogState
from penstock.units import MIB

# Recovery reads and holds at most both files. Smaller ones are used up, and their logs synced, more often than once a
# second by a busy node.
FILE_BYTES = 16 * MIB


PartitionKey = tuple[UUID, int]


class JournalFile:
    def __init__(self, disk: Disk, directory: str, name: str, capacity_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self.path = f"{directory}/{name}"
        self._capacity_bytes = capacity_bytes
        self._file: File | None = None
        # None until an entry is to be written.
        self.lap: Lap | None = None
        # Where the next entry begins.
        self.position = PAGE_BYTES
        # How far the files of these logs must be synced before a next lap begins.
        self.holds: dict[LogState, int] = {}
        # Of which partitions this lap has something, and the one before: it counts until this one has an entry.
        self._partitions: set[PartitionKey] = set()
        self._earlier_partitions: set[PartitionKey] = set()
        self._has_lap = False
        # It began with something that was neither a lap's first page nor wiped.
        self.is_unreadable = False
        # The names of the file and of its directory are known to be on disk.
        self._is_named = False

    def entries(self) -> Iterator[Entry]:
        """Of the lap that is in it, in their order; what is not whole is left out. Raises OSError."""
        if not self._disk.exists(self.path):
            return
        file = self._file = self._disk.open(self.path)
        end = min(file.size(), self._capacity_bytes)
        page = file.read(0, PAGE_BYTES)
        lap = decode_lap(page)
        self._has_lap = any(page)
        if lap is None:
            self.is_unreadable = self._has_lap
            return
        # Its first entry may not be whole, but its sequence was given.
        yield Entry(lap.first_sequence, [], 0)
        position, last_sequence = PAGE_BYTES, lap.first_sequence - 1
        while position < end:
            size = stated_size(head := file.read(position, PAGE_BYTES), lap.name)
            entry = None
            if size is not None:
                entry = decode_entry(head + file.read(position + PAGE_BYTES, size - PAGE_BYTES), lap.name)
            if entry is None or entry.sequence <= last_sequence:
                position += PAGE_BYTES
                continue
            yield entry
            position, last_sequence = position + entry.size, entry.sequence

    def wipe(self) -> None:
        """Nothing that is in it counts any more, for good. Raises OSError."""
        if self._has_lap and self._file is not None:
            write_fully(self._file, [bytes(PAGE_BYTES)], 0)
            self._file.sync()
        self._has_lap = False

    def begin_lap(self, first_sequence: int) -> None:
        """What is in it is void as soon as the first entry is written."""
        self.lap = Lap(os.urandom(LAP_NAME_BYTES), first_sequence)
        self.position = PAGE_BYTES
        self.holds = {}
        self._partitions, self._earlier_partitions = set(), self._partitions

    def will_hold(self, partitions: Iterable[PartitionKey]) -> None:
        """An entry of these is on its way, and may be found whatever becomes of it; or it was found."""
        self._partitions.update(partitions)

    def may_hold(self, partition: PartitionKey) -> bool:
        """On any thread."""
        return partition in self._partitions or partition in self._earlier_partitions

    def write(self, entry: bytes, lap: Lap, position: int) -> None:
        """Durable when it returns. Raises OSError; then nobody knows what is there from `position` on."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path, create=True)
        if not self._is_named:
            # Also if it was there before: whoever made it may have been killed before its name was on disk.
            self._disk.sync_directory(self._directory)
            self._disk.sync_directory(self._directory.rpartition("/")[0])
            self._is_named = True
        self._has_lap = True
        if position == PAGE_BYTES:
            entry = encode_lap(lap) + entry
            position = 0
        write_fully(file, [entry], position)
        file.sync()

    def has_room_for(self, size: int) -> bool:
        return self.lap is not None and self.position + size <= self._capacity_bytes

    def lagging(self) -> list[LogState]:
        """The logs that must sync their files before the next lap; those that have are forgotten."""
        self.holds = {
            log: offset for log, offset in self.holds.items() if log.synced_offset < min(offset, log.end_offset)
        }
        return list(self.holds)
