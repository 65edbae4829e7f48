"""Variable-length numbers as records hold them: zigzag, seven bits a byte, least first."""

from __future__ import annotations

from typing import Final

INT32_BITS: Final = 32
INT64_BITS: Final = 64


class MalformedRecord(Exception):
    """What is there is no record; the text says why not."""


def read_varint(payload: bytes | bytearray, position: int, bits: int) -> tuple[int, int]:
    """The number and where it ends. IndexError: the bytes end before it does. Raises MalformedRecord."""
    byte = payload[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift >= bits:
            raise MalformedRecord("a variable-length number is too long")
        position += 1
        byte = payload[position]
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> bits:
        raise MalformedRecord("a variable-length number is too large")
    return (value >> 1) ^ -(value & 1), position + 1


def put_varint(body: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        body.append((value & 0x7F) | 0x80)
        value >>= 7
    body.append(value)
