"""What Penstock asks of a disk, and what it may rely on.

Durability: bytes are safe once `File.sync` returned; a created, renamed or removed name once `sync_directory`
of its directory returned. Anything else may be lost by a power cut, in any combination.
Errors are plain `OSError`s. Paths are absolute or relative `str`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Space(NamedTuple):
    total_bytes: int
    free_bytes: int


class File(Protocol):
    """An open file. Positions are explicit: there is no cursor to share between threads.

    A file to which nobody refers any more closes itself, so that whoever lets go of it need not know whether another
    thread still reads from it.
    """

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write the buffers one after another from `position`; returns how many bytes were taken (may be short)."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file. May block."""

    def read_cached(self, position: int, length: int) -> Buffer | None:
        """The same, but None unless every byte can be had without waiting for the device."""

    def is_cached(self, position: int, length: int) -> bool:
        """Whether it is known that every byte is in memory, or on its way there from the device."""

    def read_ahead_bytes(self) -> int:
        """How much from behind what is read may come from the device unasked."""

    def send(self, socket: int, position: int, length: int) -> int:
        """To a socket that does not wait; returns how many bytes it took. Later changes of them may reach it, too."""

    def sync(self) -> None:
        """fdatasync."""

    def truncate(self, size: int) -> None:
        """Also gives back what was reserved behind that."""

    def reserve(self, position: int, length: int) -> None:
        """Room for bytes that are written there later, which then costs less; the size stays. May block.

        Raises OSError where there is none, or where the file system has no such thing.
        """

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes a missing file (its name is durable after sync_directory)."""

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """Names in it, sorted; FileNotFoundError if there is no such directory."""

    def make_directory(self, path: str, *, for_good: bool = True) -> None:
        """With parents; existing ones are fine. `for_good`: syncs every directory in which it made a name."""

    def rename(self, source: str, target: str) -> None:
        """Replaces a file that is already there. Also renames directories."""

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """With everything in it."""

    def sync_directory(self, path: str) -> None: ...

    def space(self, path: str) -> Space: ...


def read_whole(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_atomically(disk: Disk, path: str, content: bytes, *, for_good: bool = True) -> None:
    """After it returned, `path` holds `content` for good; after a crash inside it, the old content or the new.

    Not `for_good`: a power cut may still bring the old content back. That saves a sync where either will do.
    """
    temporary = path + ".tmp"
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        write_fully(file, [content], 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    if for_good:
        disk.sync_directory(path.rpartition("/")[0] or ".")


def write_fully(file: File, buffers: Sequence[Buffer], position: int) -> int:
    """Write all of it, going on after short writes; returns the position behind it."""
    pending = [memoryview(buffer).cast("B") for buffer in buffers]
    while pending:
        written = file.write(pending, position)
        if not written and any(pending):
            raise OSError(errno.ENOSPC, "the disk takes no more bytes")
        position += written
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if pending and written:
            pending[0] = pending[0][written:]
    return position
