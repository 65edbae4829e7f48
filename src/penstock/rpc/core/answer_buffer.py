"""The bytes of a connection on their way in: answers are viewed where they arrived, one reusable buffer, no copies."""

from __future__ import annotations

import struct
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from penstock.units import KIB, MIB
from penstock.wire.malformed import Malformed

# Read at once while it is not known what comes: many small answers, or the start of a large one.
READ_BYTES = 64 * KIB
# So many small answers in a row, and the room for a large one goes back.
TRIM_AFTER = 64

_LENGTH = struct.Struct(">i")
_PREFIX_BYTES = _LENGTH.size
# Every answer has a correlation id.
_LEAST_BYTES = 4


class AnswerBuffer:
    """`space` → the transport fills it → `received` → `next_frame` until None → `make_room`.

    Of a large answer no more than its own end is received, so that nothing behind it has to be moved; and room for
    all of it is there once its length is known, so that it never moves itself.
    """

    __slots__ = ("_buffer", "_end", "_small_frames", "_start", "_until", "_view", "_whole")

    def __init__(self) -> None:
        self._buffer: bytearray | mmap = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        # Where receiving stops.
        self._until = READ_BYTES
        # How long the frame is that has begun, with its prefix; 0 while that is unknown.
        self._whole = 0
        self._small_frames = 0

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    @property
    def pending_bytes(self) -> int:
        return self._end - self._start

    def space(self) -> memoryview:
        return self._view[self._end : self._until]

    def received(self, size: int) -> None:
        self._end += size

    def next_frame(self, limit_bytes: int) -> memoryview | None:
        """The next whole frame without its prefix; its bytes stay until `make_room`. Raises Malformed."""
        start, end = self._start, self._end
        if end - start < _PREFIX_BYTES:
            return None
        if not self._whole:
            (length,) = _LENGTH.unpack_from(self._view, start)
            if not _LEAST_BYTES <= length <= limit_bytes:
                raise Malformed("answer", f"{length} bytes announced, {_LEAST_BYTES} to {limit_bytes} were expected")
            self._whole = length + _PREFIX_BYTES
        behind = start + self._whole
        if end < behind:
            return None
        self._small_frames = self._small_frames + 1 if self._whole <= READ_BYTES else 0
        self._start = behind
        self._whole = 0
        return self._view[start + _PREFIX_BYTES : behind]

    def make_room(self) -> None:
        """After the frames were taken."""
        pending = self._end - self._start
        if self._start and pending:
            self._view[:pending] = self._view[self._start : self._end]
        self._start, self._end = 0, pending
        if self._whole > len(self._buffer):
            self._replace(_map(self._whole))
        elif not pending and self._small_frames >= TRIM_AFTER and len(self._buffer) > READ_BYTES:
            self._replace(bytearray(READ_BYTES))
        self._until = max(self._whole, READ_BYTES)

    def _replace(self, buffer: bytearray | mmap) -> None:
        pending = self._end
        buffer[:pending] = self._view[:pending]
        self._buffer = buffer
        self._view = memoryview(buffer)


def _map(size: int) -> mmap:
    """A page costs nothing before bytes arrive in it, so what a peer announces costs nothing either."""
    return mmap(-1, -(-size // MIB) * MIB, flags=MAP_PRIVATE | MAP_ANONYMOUS)
