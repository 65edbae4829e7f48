"""Large buffers to read into, used again and again.

What an allocator hands back to the system between two reads costs a page fault for every page of it when it is needed
again, and filling it with zeros on top: together twice as much as reading into it.
"""

from __future__ import annotations

from collections import deque

from penstock.units import KIB, MIB

# A consumer gets a mebibyte of a partition unless it asks for more, and a search reads a little beyond that.
BUFFER_BYTES = MIB + 64 * KIB
# Below this an allocator has room at hand.
_SMALL_BYTES = 128 * KIB
# For two consumers that catch up at the same time; who comes then gets memory of his own.
MOST_BUFFERS = 8


class ReadBuffers:
    """A buffer is free when no view of it is left; the one that was used last is in the processor's cache, so it comes

    first. Any thread may ask.
    """

    def __init__(self) -> None:
        self._buffers: deque[bytearray] = deque()

    def take(self, length: int) -> memoryview:
        """Writable, with anything in it."""
        if not _SMALL_BYTES <= length <= BUFFER_BYTES:
            return memoryview(bytearray(length))
        for _ in range(len(self._buffers)):
            try:
                # Taken out while it is looked at, so that nobody else gets it.
                buffer = self._buffers.pop()
            except IndexError:
                break
            if _is_free(buffer):
                view = memoryview(buffer)[:length]
                self._buffers.append(buffer)
                return view
            self._buffers.appendleft(buffer)
        if len(self._buffers) >= MOST_BUFFERS:
            return memoryview(bytearray(length))
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)[:length]
        self._buffers.append(buffer)
        return view


def _is_free(buffer: bytearray) -> bool:
    """Python refuses to change the size of bytes that somebody looks at."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
