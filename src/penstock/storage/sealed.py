"""Sealed files on a disk."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from penstock.disk.interface import Disk, read_whole
from penstock.storage.core.sealed import unseal

T = TypeVar("T", bound=msgspec.Struct)


def read_sealed(disk: Disk, path: str, kind: type[T]) -> T | None:
    """None if the file is missing or garbage."""
    try:
        return unseal(read_whole(disk, path), kind)
    except FileNotFoundError:
        return None
