"""Reads of a segment by whoever was not asked for the bytes, or does not check them."""

from __future__ import annotations

from typing import Protocol

from penstock.disk.interface import File
from penstock.storage.core.known_bytes import KnownBytes
from penstock.storage.core.scan import Readable


class Opened(Protocol):
    """A segment."""

    known: KnownBytes

    def file(self) -> File: ...


class UnaskedFile:
    """What comes from the disk with such a read, or is brought along by it, is not known to be right: neither what was

    known before, nor what is found right while it lasts and may have to come again. On any thread. Blocking.
    """

    def __init__(self, file: Readable, known: KnownBytes) -> None:
        self._file = file
        self._known = known

    def read(self, position: int, length: int) -> bytes:
        self._known.doubt()
        try:
            return self._file.read(position, length)
        finally:
            self._known.doubt()


def to_scan(segment: Opened) -> UnaskedFile:
    return UnaskedFile(segment.file(), segment.known)
