"""Digests by which replicas are compared, so that nothing but them has to be in one place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.pipelines.core.audit_compare import AbortedRecords, Comparison
from penstock.units import MIB
from penstock.wire.batch import BatchHeader
from penstock.wire.records import Record, records_of

_HALVES = struct.Struct(">qq")
_OFFSET_AND_TIME = struct.Struct(">qq")
_DIGEST_BYTES = 16
# What a batch may unpack to.
_RECORDS_LIMIT_BYTES = 256 * MIB
# Keys of which the newest is kept before they are given out: some tens of megabytes.
_MOST_KEYS = 100_000


class Digest(NamedTuple):
    """Of a part of a replica. Parts of the same slot belong together: those of a window of offsets are XORed, of those

    of a key the one with the highest offset counts.

    `parts`: batches of a window; of a key 0 if its newest record deletes it. `offset`: of that record.
    """

    slot: bytes
    offset: int
    parts: int
    high: int
    low: int


class WindowDigests:
    """Give it the batches of a segment in order."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._window = -1
        self._count = self._high = self._low = 0

    def add(self, batch: bytes, header: BatchHeader) -> Iterator[Digest]:
        """What is complete by now."""
        comparison = self._comparison
        if header.base_offset < comparison.start or header.next_offset > comparison.limit:
            return
        window = header.base_offset // comparison.window
        if window != self._window:
            yield from self.rest()
            self._window = window
        high, low = _HALVES.unpack(blake2b(batch, digest_size=_DIGEST_BYTES).digest())
        self._count += 1
        self._high ^= high
        self._low ^= low

    def rest(self) -> Iterator[Digest]:
        if self._count:
            slot = self._window.to_bytes(8, "big")
            yield Digest(slot, self._window * self._comparison.window, self._count, self._high, self._low)
        self._count = self._high = self._low = 0


class KeyDigests:
    """The same of a log that may be compacted. Records beyond the limit count too: they may be why one below it is gone

    from a replica.
    """

    def __init__(self, comparison: Comparison, aborted: AbortedRecords) -> None:
        self._start = comparison.start
        self._aborted = aborted
        self._newest: dict[bytes, Digest] = {}

    def add(self, batch: bytes, header: BatchHeader) -> Iterator[Digest]:
        if header.is_control or header.next_offset <= self._start:
            return
        if header.is_transactional and self._aborted.has(header.producer_id, header.base_offset):
            return
        try:
            for record in records_of(batch, limit_bytes=_RECORDS_LIMIT_BYTES):
                if record.key is not None and record.offset >= self._start:
                    digest = _digest(record, record.key)
                    self._newest[digest.slot] = digest
        except PenstockError:
            # Nobody can read it, so compaction leaves it alone, on every replica.
            return
        if len(self._newest) >= _MOST_KEYS:
            yield from self.rest()

    def rest(self) -> Iterator[Digest]:
        newest, self._newest = self._newest, {}
        yield from newest.values()


def _digest(record: Record, key: bytes) -> Digest:
    content = blake2b(_OFFSET_AND_TIME.pack(record.offset, record.timestamp_ms), digest_size=_DIGEST_BYTES)
    content.update(record.value or b"")
    for header in record.headers:
        content.update(repr(header).encode())
    high, low = _HALVES.unpack(content.digest())
    slot = blake2b(key, digest_size=_DIGEST_BYTES).digest()
    return Digest(slot, record.offset, 0 if record.value is None else 1, high, low)
