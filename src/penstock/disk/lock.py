"""One process per data directory: two that append to the same log would destroy it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from types import TracebackType
from typing import Self

from penstock.errors import PenstockError, Problem

_NAME = ".lock"


class DirectoryLock:
    """Held from `take` to `release` or the end of the process, however it ends: the kernel keeps it, not the file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, directory: str) -> DirectoryLock:
        """The directory must exist. Raises PenstockError(STORAGE_FAILED) that says who holds it."""
        path = os.path.join(directory, _NAME)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 300, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise PenstockError(
                Problem.STORAGE_FAILED,
                f"the data directory {directory} is in use by {holder}: stop it first, or use another --data-dir",
            ) from None
        # The name is for the error text alone; a full disk must not keep a node from starting.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
