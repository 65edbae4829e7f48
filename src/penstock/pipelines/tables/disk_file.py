"""Parquet through the seam to files, so that a full or failing disk is met by tables too."""

from __future__ import annotations

import io
from typing import Any

from penstock.disk.interface import File, write_fully


class DiskFile(io.RawIOBase):
    """A file of a `Disk` as pyarrow wants it: with a position. Closing it closes the file, and syncs nothing."""

    def __init__(self, file: File, *, writable: bool = False) -> None:
        self._file = file
        self._writable = writable
        self._position = 0
        self._is_given_up = False

    def give_up(self) -> None:
        """Takes whatever else is written, and writes nothing: a Parquet writer insists on writing its end."""
        self._is_given_up = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return self._writable

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size()}[whence]
        self._position = begin + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        length = self._file.size() - self._position if size is None or size < 0 else size
        data = self._file.read(self._position, max(0, length))
        self._position += len(data)
        return data

    def write(self, data: Any) -> int:
        if self._is_given_up:
            return len(data)
        end = write_fully(self._file, [data], self._position)
        written, self._position = end - self._position, end
        return written

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()
