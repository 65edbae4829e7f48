"""A disk with a page cache that a test can put things out of, and that reads ahead as a kernel does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.disk.interface import Buffer, File
from penstock.disk.local import LocalDisk

PAGE_BYTES = 4096


class PageCacheFile:
    def __init__(self, disk: PageCacheDisk, file: File, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        self._disk.bring(self._path, position, 1, ahead_bytes=0)
        return self._file.write(buffers, position)

    def read(self, position: int, length: int) -> bytes:
        self._disk.when_read(self._path)
        self._disk.bring(self._path, position, length)
        return self._file.read(position, length)

    def read_cached(self, position: int, length: int) -> Buffer | None:
        is_cached = self.is_cached(position, length) and not self._disk.is_on_its_way
        self._disk.bring(self._path, position, length)
        return self._file.read_cached(position, length) if is_cached else None

    def is_cached(self, position: int, length: int) -> bool:
        return self._disk.missing.get(self._path, set()).isdisjoint(pages(position, length))

    def read_ahead_bytes(self) -> int:
        return self._disk.read_ahead_bytes

    def send(self, socket: int, position: int, length: int) -> int:
        return self._file.send(socket, position, length)

    def sync(self) -> None:
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def reserve(self, position: int, length: int) -> None:
        self._file.reserve(position, length)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class PageCacheDisk(LocalDisk):
    def __init__(self, read_ahead_bytes: int = 0) -> None:
        super().__init__()
        self.read_ahead_bytes = read_ahead_bytes
        self.missing: dict[str, set[int]] = {}
        # Pages count as cached, but the device has not brought them yet.
        self.is_on_its_way = False
        self.when_read: Callable[[str], None] = lambda path: None

    def open(self, path: str, *, create: bool = False) -> PageCacheFile:  # type: ignore[override]
        return PageCacheFile(self, super().open(path, create=create), path)

    def put_out(self, path: str, position: int, length: int) -> None:
        self.missing.setdefault(path, set()).update(pages(position, length))

    def bring(self, path: str, position: int, length: int, ahead_bytes: int | None = None) -> None:
        """What is read, and what follows."""
        ahead = self.read_ahead_bytes if ahead_bytes is None else ahead_bytes
        self.missing.get(path, set()).difference_update(pages(position, length + ahead))


def pages(position: int, length: int) -> range:
    return range(position // PAGE_BYTES, (position + length - 1) // PAGE_BYTES + 1)
