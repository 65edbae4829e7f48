"""What of a file is in the page cache, as Linux tells from 6.5 on. Before that nobody knows, and nothing is."""

from __future__ import annotations

import ctypes
import mmap

# Of cachestat, on every architecture; libraries have no function for it yet.
_CACHESTAT = 451

_syscall = ctypes.CDLL(None, use_errno=True).syscall


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
