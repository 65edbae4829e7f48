"""The bytes of one connection on their way in: frames are viewed in place, one reusable buffer, few copies."""

from __future__ import annotations

from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

from penstock.broker.memory import RequestMemory
from penstock.units import KIB, MIB

# Thousands of idle connections must be cheap, so a buffer starts (and ends) small.
SMALL_BYTES: Final = KIB
# Up to here a buffer grows without asking: most requests fit, and reads stay large.
FREE_BYTES: Final = 64 * KIB
# Kafka's producers send no more than this in one request unless told to.
TURN_BYTES: Final = MIB

_PREFIX_BYTES: Final = 4


class ReceiveBuffer:
    """`space` → the transport fills it → `received` → `next_frame` until None → `make_room`."""

    __slots__ = ("_buffer", "_check_prefix", "_end", "_memory", "_size", "_start", "_view")

    def __init__(self, memory: RequestMemory, check_prefix: Callable[[memoryview], int | None]) -> None:
        """`check_prefix` gets what is there of a frame: its whole length with the prefix, None while too little is

        there to know, or it raises for a frame that nobody should wait for."""
        self._memory = memory
        self._check_prefix = check_prefix
        self._buffer: bytearray | mmap = bytearray(SMALL_BYTES)
        self._view = memoryview(self._buffer)
        # What it has been granted; the buffer itself grows when the space is asked for.
        self._size = SMALL_BYTES
        self._start = 0
        self._end = 0

    @property
    def pending_bytes(self) -> int:
        return self._end - self._start

    @property
    def capacity(self) -> int:
        return self._size

    @property
    def charged_bytes(self) -> int:
        return self._charged(self._size)

    def has_space(self) -> bool:
        """Whether anything can be received before the next frame is taken, without more memory."""
        if self._start == self._end:
            self._start = self._end = 0
        return self._end < self._size

    def space(self) -> memoryview:
        if self._size != len(self._buffer):
            self._resize_now()
        return self._view[self._end :]

    def received(self, size: int) -> None:
        self._end += size

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its prefix; valid until the next call of any method."""
        start, end = self._start, self._end
        if end - start < _PREFIX_BYTES:
            return None
        whole = self._check_prefix(self._view[start:end])
        if whole is None or end - start < whole:
            return None
        self._start = start + whole
        return self._view[start + _PREFIX_BYTES : self._start]

    def make_room(self, in_turn: bool = False) -> bool:
        """After the frames were taken: room for what comes next. False: no memory now, stop reading."""
        pending = self._end - self._start
        filled = self._end == self._size
        if pending == 0:
            self._start = self._end = 0
            if filled:
                self._widen()
            return True
        whole = self._check_prefix(self._view[self._start : self._end]) or 0
        if self._start + whole > self._size or filled:
            self._move_to_front()
        if self._end < self._size:
            if filled:
                self._widen()
            return True
        # By what has arrived, not by what a client announces: 100 MB promised costs nothing. Whoever waited gets what
        # most requests need, so that it does not wait again with what it holds.
        return self._grow(min(whole, max(TURN_BYTES if in_turn else FREE_BYTES, 4 * pending)), in_turn)

    def trim(self) -> None:
        """Give memory back; for idle connections, and for all when others wait for memory."""
        if self._start == self._end and self._size > SMALL_BYTES:
            self._start = self._end = 0
            self._resize(SMALL_BYTES)

    def close(self) -> None:
        self._start = self._end = 0
        self._resize(SMALL_BYTES)

    def _widen(self) -> None:
        """A read that filled the buffer had more behind it: larger reads cost less per byte."""
        if self._size < FREE_BYTES:
            self._size = min(FREE_BYTES, 2 * self._size)

    def _grow(self, size: int, in_turn: bool) -> bool:
        held = self._charged(self._size)
        more = self._charged(size) - held
        if in_turn:
            self._memory.take_in_turn(more)
        elif more and not self._memory.take(more, held):
            return False
        self._size = size
        return True

    def _resize(self, size: int) -> None:
        less = self._charged(self._size) - self._charged(size)
        self._size = size
        self._resize_now()
        if less > 0:
            self._memory.give_back(less)

    def _resize_now(self) -> None:
        """A large buffer is a map of its own: the kernel moves pages instead of bytes when it grows, a page costs

        nothing before bytes arrive in it, and all of it goes back at once; an allocator would do none of it reliably.
        """
        self._move_to_front()
        if not (isinstance(self._buffer, mmap) and self._size > FREE_BYTES and self._resized(self._buffer)):
            before = self._buffer
            self._buffer = _map(self._size) if self._size > FREE_BYTES else bytearray(self._size)
            self._buffer[: self._end] = memoryview(before)[: self._end]
        self._view = memoryview(self._buffer)

    def _resized(self, buffer: mmap) -> bool:
        """False: asyncio still looks at it, as it does while it reports what was received."""
        try:
            self._view.release()
            buffer.resize(self._size)
        except BufferError:
            return False
        return True

    def _move_to_front(self) -> None:
        pending = self._end - self._start
        if self._start:
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending

    @staticmethod
    def _charged(size: int) -> int:
        return max(0, size - FREE_BYTES)


def _map(size: int) -> mmap:
    # Private: a shared one cannot grow.
    return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
