"""Checked frames in a file that only grows, one sync each: which damage a crash explains, and which it does not."""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

_MAGIC = b"PnJ\x01"
_HEADER = struct.Struct(">4sIIQ")
_SEQUENCE = struct.Struct(">Q")
FRAME_OVERHEAD = _HEADER.size


class FrameError(Exception):
    """The bytes are damaged where they had been synced."""


class Frame(NamedTuple):
    sequence: int
    payload: bytes


def frame(sequence: int, payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), _checksum(sequence, payload), sequence) + payload


def read_frames(data: bytes) -> tuple[list[Frame], int]:
    """All frames, and the position behind the last whole one.

    A frame is written only after the one before it was synced. So a crash can spoil the last frame alone: an invalid
    frame with nothing valid behind it is a torn tail, any other is an error.
    """
    frames: list[Frame] = []
    position = 0
    while (found := _frame_at(data, position)) is not None:
        if frames and found.sequence != frames[-1].sequence + 1:
            raise FrameError(f"frame {found.sequence} at byte {position} follows frame {frames[-1].sequence}")
        frames.append(found)
        position += FRAME_OVERHEAD + len(found.payload)
    candidate = data.find(_MAGIC, position + 1)
    while candidate >= 0:
        if (later := _frame_at(data, candidate)) is not None:
            raise FrameError(f"damaged at byte {position}, before frame {later.sequence} at byte {candidate}")
        candidate = data.find(_MAGIC, candidate + 1)
    return frames, position


def _frame_at(data: bytes, position: int) -> Frame | None:
    if len(data) - position < FRAME_OVERHEAD:
        return None
    magic, length, checksum, sequence = _HEADER.unpack_from(data, position)
    start = position + FRAME_OVERHEAD
    if magic != _MAGIC or length > len(data) - start:
        return None
    payload = data[start : start + length]
    return Frame(sequence, payload) if _checksum(sequence, payload) == checksum else None


def _checksum(sequence: int, payload: bytes) -> int:
    return crc32c.crc32c(payload, crc32c.crc32c(_SEQUENCE.pack(sequence)))
