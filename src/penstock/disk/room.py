"""Room on the disk for bytes that are yet to come. The standard library's fallocate always changes the size."""

from __future__ import annotations

import ctypes
import os

_KEEP_SIZE = 1

_libc = ctypes.CDLL(None, use_errno=True)


def reserve(descriptor: int, position: int, length: int) -> None:
    """Blocking. Raises OSError."""
    if _libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_int64(position), ctypes.c_int64(length)):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
