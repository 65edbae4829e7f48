"""Kafka's hash of keys: the same key is in the same partition, whichever client wrote it."""

from __future__ import annotations

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Without the sign bit, which Kafka does not look at."""
    length = len(key)
    value = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _FACTOR & _MASK
        word ^= word >> _SHIFT
        value = (value * _FACTOR & _MASK) ^ (word * _FACTOR & _MASK)
    if length > whole:
        value ^= int.from_bytes(key[whole:], "little")
        value = value * _FACTOR & _MASK
    value ^= value >> 13
    value = value * _FACTOR & _MASK
    return (value ^ value >> 15) & 0x7FFFFFFF
