"""The newest offset of each key, in a bounded amount of memory."""

from __future__ import annotations

import hashlib
import struct

_DIGEST_BYTES = 16
_SLOT = struct.Struct(f"{_DIGEST_BYTES}sq")
_EMPTY = bytes(_DIGEST_BYTES)
_FIRST_SLOTS = 1024


class KeyMap:
    """Keys are known by a 128-bit digest: two keys with the same one would be taken for one key, as in Kafka.

    One flat table instead of a dict: 24 bytes for a key instead of about 200, so few passes are needed.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_slots = _FIRST_SLOTS
        while 2 * self._max_slots * _SLOT.size <= max_bytes:
            self._max_slots *= 2
        self._slots = _FIRST_SLOTS
        self._table = bytearray(self._slots * _SLOT.size)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """No further key fits; three quarters, because probing gets slow beyond."""
        return 4 * self._count >= 3 * self._max_slots

    def put(self, key: bytes, offset: int) -> bool:
        """Offsets come in ascending order. False: the key is new, and there is no room for it."""
        digest = _digest(key)
        position = self._find(digest)
        if self._table[position : position + _DIGEST_BYTES] == _EMPTY:
            if self.is_full:
                return False
            self._count += 1
        _SLOT.pack_into(self._table, position, digest, offset)
        if 4 * self._count >= 3 * self._slots and self._slots < self._max_slots:
            self._double()
        return True

    def newest(self, key: bytes) -> int | None:
        position = self._find(_digest(key))
        digest, offset = _SLOT.unpack_from(self._table, position)
        return offset if digest != _EMPTY else None

    def _find(self, digest: bytes) -> int:
        """Where it is, or the empty slot where it belongs."""
        table = self._table
        end = len(table)
        position = int.from_bytes(digest[:8], "little") % self._slots * _SLOT.size
        while (found := table[position : position + _DIGEST_BYTES]) != digest and found != _EMPTY:
            position += _SLOT.size
            if position == end:
                position = 0
        return position

    def _double(self) -> None:
        old = self._table
        self._slots *= 2
        self._table = bytearray(self._slots * _SLOT.size)
        for digest, offset in _SLOT.iter_unpack(old):
            if digest != _EMPTY:
                _SLOT.pack_into(self._table, self._find(digest), digest, offset)


def _digest(key: bytes) -> bytes:
    # A digest of zeros means an empty slot; no key is ever seen to have it.
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
