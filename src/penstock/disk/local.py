"""The real disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress

from penstock.disk.buffers import ReadBuffers
from penstock.disk.interface import Buffer, Space
from penstock.disk.page_cache import is_cached, read_ahead_bytes
from penstock.disk.room import reserve


class LocalFile:
    def __init__(self, path: str, flags: int, buffers: ReadBuffers) -> None:
        self._descriptor = -1
        self._buffers = buffers
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o640)

    def __del__(self) -> None:
        self.close()

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        if len(buffers) == 1:
            # A sixth less than with a list of one.
            return os.pwrite(self._descriptor, buffers[0], position)
        return os.pwritev(self._descriptor, buffers, position)

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        received = len(data)
        while received < length and (data := os.pread(self._descriptor, length - received, position + received)):
            parts.append(data)
            received += len(data)
        return b"".join(parts)

    def read_cached(self, position: int, length: int) -> Buffer | None:
        data = self._buffers.take(length)
        try:
            received = os.preadv(self._descriptor, [data], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        # A short answer means that the next page is not in the cache.
        return data if received == length else None

    def is_cached(self, position: int, length: int) -> bool:
        return is_cached(self._descriptor, position, length)

    def read_ahead_bytes(self) -> int:
        return read_ahead_bytes(os.fstat(self._descriptor).st_dev)

    def send(self, socket: int, position: int, length: int) -> int:
        return os.sendfile(socket, self._descriptor, position, length)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def reserve(self, position: int, length: int) -> None:
        reserve(self._descriptor, position, length)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LocalDisk:
    def __init__(self) -> None:
        self._buffers = ReadBuffers()

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        return LocalFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR, self._buffers)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str, *, for_good: bool = True) -> None:
        missing = []
        path = os.path.abspath(path)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            # Another process may make it at the same moment.
            with suppress(FileExistsError):
                os.mkdir(directory, 0o750)
            if for_good:
                self.sync_directory(os.path.dirname(directory))

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space(self, path: str) -> Space:
        usage = shutil.disk_usage(path)
        return Space(usage.total, usage.free)
