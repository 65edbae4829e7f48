"""Batches that stay in their file until a socket takes them from there: a part of a reply, as a buffer is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.wire.batch import BatchHeader


class SendingFile(Protocol):
    def read(self, position: int, length: int) -> bytes: ...

    def send(self, socket: int, position: int, length: int) -> int: ...


class StoredBatches:
    """Whole ones, in a row. `is_there` says whether they are what they were: a log may be cut, and written anew."""

    __slots__ = ("_file", "_headers", "_length", "_position", "is_there")

    def __init__(
        self, file: SendingFile, position: int, headers: Sequence[BatchHeader], is_there: Callable[[], bool]
    ) -> None:
        self._file = file
        self._position = position
        self._headers = headers
        self._length = sum([header.size for header in headers])
        self.is_there = is_there

    def __len__(self) -> int:
        return self._length

    def __bytes__(self) -> bytes:
        return self.behind(0)

    def behind(self, sent: int) -> bytes:
        """All but the first bytes. Raises OSError."""
        return self._file.read(self._position + sent, self._length - sent)

    def send(self, socket: int, sent: int) -> int:
        """To a socket that does not wait, from behind what it has; returns how many bytes it took. Raises OSError."""
        return self._file.send(socket, self._position + sent, self._length - sent)

    @property
    def end_offset(self) -> int:
        return self._headers[-1].next_offset

    def count_records(self, first_offset: int) -> int:
        """As `batch.count_records` does."""
        records = 0
        for header in self._headers:
            if not header.is_control:
                records += min(header.record_count, max(0, header.next_offset - first_offset))
        return records
