"""Where an audit reads the files of a log from, as its checks see that."""

from __future__ import annotations

from typing import Protocol

from penstock.storage.core.log_files import (
    CHECKPOINT_NAME,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    START_OFFSET_NAME,
    TIME_INDEX_SUFFIX,
    TOPIC_ID_NAME,
    TRANSACTION_INDEX_SUFFIX,
    segment_stem,
)
from penstock.wire.audit_messages import FileKind, FileName

SEGMENT_SUFFIXES = {
    FileKind.LOG: LOG_SUFFIX,
    FileKind.OFFSET_INDEX: OFFSET_INDEX_SUFFIX,
    FileKind.TIME_INDEX: TIME_INDEX_SUFFIX,
    FileKind.TRANSACTION_INDEX: TRANSACTION_INDEX_SUFFIX,
    FileKind.SNAPSHOT: SNAPSHOT_SUFFIX,
}
_NAMES = {
    FileKind.CHECKPOINT: CHECKPOINT_NAME,
    FileKind.START_OFFSET: START_OFFSET_NAME,
    FileKind.TOPIC_ID: TOPIC_ID_NAME,
}
# An index of a whole segment has a few megabytes.
_MAX_WHOLE_BYTES = 1 << 30


class LogChanged(Exception):
    """It is not as it was listed: truncated, compacted, deleted or moved meanwhile."""


class SegmentGone(Exception):
    """Retention took it meanwhile, with all before it."""


class NobodyAnswers(Exception):
    """Who has the log is silent, so nothing is known of it."""


class FileMissing(Exception):
    """There is no such file."""


class FileUnreadable(Exception):
    """It is there, but its bytes are not to be had."""


class OpenFile(Protocol):
    """Every read raises LogChanged, SegmentGone, NobodyAnswers or FileUnreadable."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, length: int, /) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""


class LogFiles(Protocol):
    """The files of one log of one replica."""

    def open(self, file: FileName) -> OpenFile:
        """Raises FileMissing, and what a read raises."""


def whole(files: LogFiles, name: FileName) -> bytes | None:
    """None if there is no such file. Raises what a read raises."""
    try:
        file = files.open(name)
    except FileMissing:
        return None
    if file.size > _MAX_WHOLE_BYTES:
        raise FileUnreadable(f"{shown(name)} has {file.size} bytes, which no such file has")
    return file.read(0, file.size)


def shown(file: FileName) -> str:
    """Its name on disk."""
    if file.kind in SEGMENT_SUFFIXES:
        return segment_stem(file.base_offset, file.generation) + SEGMENT_SUFFIXES[file.kind]
    return _NAMES[file.kind]


class BufferedFile:
    """Reads ahead, and keeps what it read last: a walk over batches looks at each of them more than once."""

    def __init__(self, file: OpenFile, size: int, ahead_bytes: int) -> None:
        """`size`: what there is of it to read."""
        self._file = file
        self._size = size
        self._ahead_bytes = ahead_bytes
        # Where each begins; the newest last.
        self._chunks: list[tuple[int, bytes]] = []

    def read(self, position: int, length: int, /) -> bytes:
        length = max(0, min(length, self._size - position))
        for start, chunk in reversed(self._chunks):
            if start <= position and position + length <= start + len(chunk):
                if start == position and length == len(chunk):
                    return chunk
                return chunk[position - start : position - start + length]
        wanted = min(max(length, self._ahead_bytes), self._size - position)
        chunk = self._file.read(position, wanted) if wanted > 0 else b""
        self._chunks = [*self._chunks[-1:], (position, chunk)]
        return chunk[:length]
