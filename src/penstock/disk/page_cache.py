"""What of a file is in the page cache, as Linux tells from 6.5 on. Before that nobody knows, and nothing is.

And how much comes there that nobody has asked for.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path

from penstock.units import KIB, MIB

# Of cachestat, on every architecture; libraries have no function for it yet.
_CACHESTAT = 451

# It waits for nothing, so no other thread needs to run meanwhile.
_syscall = ctypes.PyDLL(None, use_errno=True).syscall
# More than any kernel reads ahead, and what one may read that is told to read ahead less than a request is long.
_MOST_BYTES = 64 * MIB
_LEAST_BYTES = 4 * MIB


class _Range(ctypes.Structure):
    _fields_ = (("position", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "written_back", "evicted", "recently_evicted")
    )


def is_cached(descriptor: int, position: int, length: int) -> bool:
    """Every byte of it, as far as it could be told."""
    pages = _Pages()
    span = _Range(position, length)
    if length <= 0 or _syscall(_CACHESTAT, descriptor, ctypes.byref(span), ctypes.byref(pages), 0):
        return False
    wanted: int = (position + length - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE + 1
    return bool(pages.cached >= wanted)


@cache
def read_ahead_bytes(device: int) -> int:
    """How far behind a read on this device (`st_dev`) the kernel may read on, at the most: twice what it is told."""
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    # A partition has what its disk has.
    for queue in (place / "queue", place.parent / "queue"):
        try:
            told = int((queue / "read_ahead_kb").read_text()) * KIB
        except (OSError, ValueError):
            continue
        return min(_MOST_BYTES, max(_LEAST_BYTES, 2 * told))
    return _MOST_BYTES
