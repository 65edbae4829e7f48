"""Looks for keys in what is produced to compacted topics: on the event loop, where everybody waits meanwhile."""

from __future__ import annotations

import asyncio

from penstock.units import MIB
from penstock.wire.batch import BatchHeader
from penstock.wire.record_keys import check_keys

# What one batch may unpack to, and how many records and headers it may hold: a fifth of a second at worst.
DECOMPRESSED_LIMIT_BYTES = 16 * MIB
MAX_COMPACTED_ELEMENTS = 100_000


class KeyChecks:
    """In one turn of the loop a sender gets one batch looked at, whatever that costs, and more up to the same limit.

    It can have thousands of batches in a request, and hundreds of requests in what was received at once.
    """

    def __init__(self) -> None:
        # In this turn, by who they are.
        self._spent: dict[int, int] = {}

    def has_time_for(self, header: BatchHeader, sender: object) -> bool:
        spent = self._spent.get(id(sender), 0)
        return spent == 0 or spent + header.record_count <= MAX_COMPACTED_ELEMENTS

    def check(self, records: memoryview, sender: object) -> None:
        """Raises PenstockError unless every record has a key."""
        spent = self._spent.get(id(sender), 0)
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._spent.clear)
        # What a refused one costs is not known: nobody sends many.
        self._spent[id(sender)] = MAX_COMPACTED_ELEMENTS
        # A batch that was sent uncompressed is as large as its topic allows, and costs no time to unpack.
        limit_bytes = max(DECOMPRESSED_LIMIT_BYTES, len(records))
        self._spent[id(sender)] = spent + check_keys(
            records, limit_bytes=limit_bytes, limit_elements=MAX_COMPACTED_ELEMENTS
        )
