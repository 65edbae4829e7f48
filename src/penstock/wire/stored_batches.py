"""Batches that stay in their file until a socket takes them from there: a part of a reply, as a buffer is one."""

from __future__ import annotations

from typing import Protocol


class SendingFile(Protocol):
    def read(self, position: int, length: int) -> bytes: ...

    def send(self, socket: int, position: int, length: int) -> int: ...


class Origin(Protocol):
    """Where they come from."""

    def is_as_known(self, position: int, length: int) -> bool: ...

    def doubt(self) -> None: ...


class StoredBatches:
    """Whole ones, in a row. `records`: how many a reader gets of them, from the offset on that it asked for."""

    __slots__ = ("_file", "_length", "_origin", "_position", "end_offset", "records")

    def __init__(
        self, file: SendingFile, position: int, length: int, end_offset: int, records: int, origin: Origin
    ) -> None:
        self._file = file
        self._position = position
        self._length = length
        self.end_offset = end_offset
        self.records = records
        self._origin = origin

    def __len__(self) -> int:
        return self._length

    def __bytes__(self) -> bytes:
        return self.behind(0)

    def behind(self, sent: int) -> bytes:
        """All but the first bytes. Raises OSError."""
        data = self._file.read(self._position + sent, self._length - sent)
        if len(data) != self._length - sent:
            raise OSError("the file ends before the records do")
        return data

    def send(self, socket: int, sent: int) -> int:
        """To a socket that does not wait, from behind what it has; returns how many bytes it took. Raises OSError."""
        return self._file.send(socket, self._position + sent, self._length - sent)

    def is_there(self) -> bool:
        """Whether they are what they were: a log may be cut and written anew, and pages may leave the page cache."""
        return self._origin.is_as_known(self._position, self._length)

    def doubt(self) -> None:
        """They could not be sent: next time they are read and checked, and whoever asks is told what is wrong."""
        self._origin.doubt()
