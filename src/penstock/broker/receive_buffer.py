"""The bytes of one connection on their way in: frames are viewed in place, one reusable buffer, few copies."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.memory import RequestMemory
from penstock.units import KIB

# Thousands of idle connections must be cheap, so a buffer starts (and ends) small.
SMALL_BYTES = 4 * KIB
# Up to here a buffer grows without asking: most requests fit, and reads stay large.
FREE_BYTES = 64 * KIB

_PREFIX_BYTES = 4


class ReceiveBuffer:
    """`space` → the transport fills it → `received` → `next_frame` until None → `make_room`."""

    __slots__ = ("_buffer", "_check_prefix", "_end", "_memory", "_start", "_view")

    def __init__(self, memory: RequestMemory, check_prefix: Callable[[memoryview], int | None]) -> None:
        """`check_prefix` gets what is there of a frame: its whole length with the prefix, None while too little is

        there to know, or it raises for a frame that nobody should wait for."""
        self._memory = memory
        self._check_prefix = check_prefix
        self._buffer = bytearray(SMALL_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0

    @property
    def pending_bytes(self) -> int:
        return self._end - self._start

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    def space(self) -> memoryview:
        return self._view[self._end :]

    def received(self, size: int) -> None:
        self._end += size

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its prefix; valid until the next call of any method."""
        if self._end - self._start < _PREFIX_BYTES:
            return None
        whole = self._check_prefix(self._view[self._start : self._end])
        if whole is None or self._end - self._start < whole:
            return None
        frame = self._view[self._start + _PREFIX_BYTES : self._start + whole]
        self._start += whole
        return frame

    def make_room(self, in_turn: bool = False) -> bool:
        """After the frames were taken: room for what comes next. False: no memory now, stop reading."""
        pending = self._end - self._start
        if pending == 0:
            # A read that filled the buffer had more behind it: larger reads cost less per byte.
            filled = self._end == len(self._buffer)
            self._start = self._end = 0
            if filled and len(self._buffer) < FREE_BYTES:
                self._resize(min(FREE_BYTES, 2 * len(self._buffer)))
            return True
        whole = self._check_prefix(self._view[self._start : self._end]) or 0
        if self._start + whole <= len(self._buffer) and self._end < len(self._buffer):
            return True
        if whole <= len(self._buffer) and self._start:
            self._buffer[:pending] = self._buffer[self._start : self._end]
            self._start, self._end = 0, pending
            return True
        if self._end < len(self._buffer):
            return True
        # By what has arrived, not by what a client announces: 100 MB promised costs nothing.
        return self._grow(min(whole, max(FREE_BYTES, 4 * pending)), in_turn)

    def trim(self) -> None:
        """Give memory back; for idle connections, and for all when others wait for memory."""
        if self._start == self._end and len(self._buffer) > SMALL_BYTES:
            self._start = self._end = 0
            self._resize(SMALL_BYTES)

    def close(self) -> None:
        self._start = self._end = 0
        self._resize(SMALL_BYTES)

    def _grow(self, size: int, in_turn: bool) -> bool:
        held = self._charged(len(self._buffer))
        more = self._charged(size) - held
        if in_turn:
            self._memory.take_in_turn(more)
        elif more and not self._memory.take(more, held):
            return False
        self._replace(size)
        return True

    def _resize(self, size: int) -> None:
        less = self._charged(len(self._buffer)) - self._charged(size)
        self._replace(size)
        if less > 0:
            self._memory.give_back(less)

    def _replace(self, size: int) -> None:
        pending = self._end - self._start
        buffer = bytearray(size)
        buffer[:pending] = self._view[self._start : self._end]
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start, self._end = 0, pending

    @staticmethod
    def _charged(size: int) -> int:
        return max(0, size - FREE_BYTES)
