"""Faults in front of any disk, real or in memory: no room, failing operations, the moment at which it is pulled out.

Safe from many threads, also where the disk behind it is not.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.disk.interface import Buffer, Disk, File, Space


class _Failure(NamedTuple):
    operation: str
    number: int
    path_part: str
    bug: Exception | None

    def raise_for(self, path: str) -> None:
        if self.bug is not None:
            raise self.bug
        raise OSError(self.number, os.strerror(self.number), path)


class _Room:
    """How much files may grow; None: as much as the disk behind has."""

    def __init__(self) -> None:
        self.left_bytes: int | None = None

    def take(self, growth: int, length: int) -> int:
        """How many of `length` bytes may be written if all of them made the file grow by `growth`."""
        if self.left_bytes is None or growth <= 0:
            return length
        taken = min(growth, self.left_bytes)
        self.left_bytes -= taken
        allowed = length - growth + taken
        if allowed <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return allowed

    def take_name(self) -> None:
        if self.left_bytes == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def give(self, shrunk: int) -> None:
        if self.left_bytes is not None:
            self.left_bytes += shrunk


class FaultyFile:
    def __init__(self, disk: FaultyDisk, file: File, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        with self._disk.operation("write", self._path):
            data = b"".join(buffers)
            allowed = self._disk.room.take(position + len(data) - self._file.size(), len(data))
            return self._file.write([data[:allowed]], position)

    def read(self, position: int, length: int) -> bytes:
        with self._disk.operation("read", self._path):
            return self._file.read(position, length)

    def read_cached(self, position: int, length: int) -> Buffer | None:
        with self._disk.operation("read", self._path):
            return None if self._disk.is_cold else self._file.read_cached(position, length)

    def is_cached(self, position: int, length: int) -> bool:
        return not self._disk.is_cold and self._file.is_cached(position, length)

    def read_ahead_bytes(self) -> int:
        return self._file.read_ahead_bytes()

    def send(self, socket: int, position: int, length: int) -> int:
        with self._disk.operation("read", self._path):
            return self._file.send(socket, position, length)

    def sync(self) -> None:
        self._disk.being_synced.append(self._path)
        if self._disk.held_part in self._path:
            self._disk.syncs_may_run.wait()
        self._disk.being_synced.remove(self._path)
        with self._disk.operation("sync", self._path):
            self._file.sync()

    def truncate(self, size: int) -> None:
        with self._disk.operation("truncate", self._path):
            self._disk.room.give(self._file.size() - size)
            self._file.truncate(size)

    def reserve(self, position: int, length: int) -> None:
        with self._disk.operation("reserve", self._path):
            self._file.reserve(position, length)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class FaultyDisk:
    """Does what the disk behind it does, until a test says otherwise."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Whose syncs wait: all, unless a part of their paths is given.
        self.held_part = ""
        self._lock = threading.RLock()
        self._failures: list[_Failure] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self.room = _Room()
        self._pulled = threading.Event()
        self._operations_left = -1
        self._when_pulled: Callable[[], None] = lambda: None
        # Nothing is in the page cache.
        self.is_cold = False
        # Cleared by a test that wants syncs to take as long as it likes; which files they are of.
        self.syncs_may_run = threading.Event()
        self.syncs_may_run.set()
        self.being_synced: list[str] = []
        # The same for removing files.
        self.removals_may_run = threading.Event()
        self.removals_may_run.set()
        self.being_removed: list[str] = []
        # And for removing directories with all that is in them.
        self.directories_may_go = threading.Event()
        self.directories_may_go.set()

    # What a test does to it

    def fill(self, room_bytes: int = 0) -> None:
        """From now on files may grow by so many bytes in all, and at zero no name can be made either."""
        with self._lock:
            self.room.left_bytes = room_bytes

    def make_room(self) -> None:
        with self._lock:
            self.room.left_bytes = None

    def hold_syncs_of(self, path_part: str) -> None:
        self.held_part = path_part
        self.syncs_may_run.clear()

    def fail(
        self, operation: str, number: int = errno.EIO, *, path_part: str = "", bug: Exception | None = None
    ) -> None:
        """Every such operation fails until `heal`; with `bug`, in a way that no disk should."""
        with self._lock:
            self._failures.append(_Failure(operation, number, path_part, bug))

    def heal(self) -> None:
        with self._lock:
            self._failures = []

    def pull_after(self, operations: int, then: Callable[[], None]) -> None:
        """At the operation after so many more, whoever uses it gets nothing done any more: the process is as good as

        gone. `then` is called at that moment, before anything else can happen.
        """
        with self._lock:
            self._operations_left = operations
            self._when_pulled = then

    @property
    def is_pulled(self) -> bool:
        return self._pulled.is_set()

    def wait_until_pulled(self, timeout_s: float) -> bool:
        return self._pulled.wait(timeout_s)

    def count(self, operation: str, path_part: str = "") -> int:
        """How many such operations were asked for."""
        with self._lock:
            return sum(
                number for (name, path), number in self._counts.items() if name == operation and path_part in path
            )

    # The disk

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        with self.operation("open", path):
            if create and not self._disk.exists(path):
                self.room.take_name()
            return FaultyFile(self, self._disk.open(path, create=create), path)

    def exists(self, path: str) -> bool:
        with self.operation("exists", path):
            return self._disk.exists(path)

    def list_directory(self, path: str) -> list[str]:
        with self.operation("list_directory", path):
            return self._disk.list_directory(path)

    def make_directory(self, path: str, *, for_good: bool = True) -> None:
        with self.operation("make_directory", path):
            if not self._disk.exists(path):
                self.room.take_name()
            self._disk.make_directory(path, for_good=for_good)

    def rename(self, source: str, target: str) -> None:
        with self.operation("rename", source):
            self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self.being_removed.append(path)
        self.removals_may_run.wait()
        self.being_removed.remove(path)
        with self.operation("remove", path):
            size = self._disk.open(path).size()
            self._disk.remove(path)
            self.room.give(size)

    def remove_directory(self, path: str) -> None:
        self.directories_may_go.wait()
        with self.operation("remove_directory", path):
            self._disk.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        with self.operation("sync_directory", path):
            self._disk.sync_directory(path)

    def space(self, path: str) -> Space:
        with self._lock:
            space = self._disk.space(path)
            return space if (left := self.room.left_bytes) is None else Space(space.total_bytes, left)

    # For its files

    @contextmanager
    def operation(self, name: str, path: str) -> Iterator[None]:
        """One at a time; raises OSError if it has to fail."""
        with self._lock:
            self._counts[name, path] += 1
            if self._operations_left == 0 and not self._pulled.is_set():
                self._when_pulled()
                self._pulled.set()
            self._operations_left -= 1
            if self._pulled.is_set():
                raise OSError(errno.EIO, "the disk is gone", path)
            for failure in self._failures:
                if failure.operation == name and failure.path_part in path:
                    failure.raise_for(path)
            yield
