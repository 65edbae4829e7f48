"""What comes from the disk without anybody checking it: reads of a segment that nobody asked for, and by appends."""

from __future__ import annotations

from typing import Protocol

from penstock.disk.interface import File
from penstock.storage.core.known_bytes import PAGE_BYTES, KnownBytes
from penstock.storage.core.scan import Readable
from penstock.units import SECOND_MS

# What was written so short a time ago is the last to leave the page cache.
FRESH_MS = SECOND_MS


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


def forget_end(known: KnownBytes, file: File, position: int) -> None:
    """Before something is written there: the kernel reads a page first of which only a part is written."""
    on_page = position % PAGE_BYTES
    if on_page and not file.is_cached(position - 1, 1):
        known.left_the_cache(position - on_page, position)
