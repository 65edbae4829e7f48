"""Looks for keys in what is produced to compacted topics: on the event loop, where everybody waits meanwhile."""

from __future__ import annotations

import asyncio

from penstock.errors import PenstockError
from penstock.units import MIB
from penstock.wire.batch import BatchHeader, read_header
from penstock.wire.record_keys import check_keys

# What one batch may unpack to, and how many records and headers it may hold: a fifth of a second at worst.
DECOMPRESSED_LIMIT_BYTES = 16 * MIB
MAX_COMPACTED_ELEMENTS = 100_000
# For all senders together: however much one of them brings, there is time for another.
_MAX_ELEMENTS_IN_TURN = 2 * MAX_COMPACTED_ELEMENTS


class KeyChecks:
    """How much is looked at in one turn of the loop is limited, for each sender and for all of them.

    One can have thousands of batches in a request, and hundreds of requests in what was received at once; and there
    may be hundreds of senders. What one batch really costs is known only afterwards, so the last one may go beyond
    either limit. Who is refused sends again, in a later turn.
    """

    def __init__(self) -> None:
        # In this turn: by who they are, and in all.
        self._spent: dict[int, int] = {}
        self._spent_in_all = 0

    def has_time_for(self, header: BatchHeader, sender: object) -> bool:
        spent = self._spent.get(id(sender), 0)
        if spent and spent + header.record_count > MAX_COMPACTED_ELEMENTS:
            return False
        return self._spent_in_all + header.record_count <= _MAX_ELEMENTS_IN_TURN or not self._spent

    def check(self, records: memoryview, sender: object) -> None:
        """`records` is one whole batch, with a sound header. Raises PenstockError unless every record has a key."""
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._end_turn)
        # A batch that was sent uncompressed is as large as its topic allows, and costs no time to unpack.
        limit_bytes = max(DECOMPRESSED_LIMIT_BYTES, len(records))
        try:
            cost = check_keys(records, limit_bytes=limit_bytes, limit_elements=MAX_COMPACTED_ELEMENTS)
        except PenstockError:
            # What a refused one costs is not known: nobody sends many.
            self._spent[id(sender)] = MAX_COMPACTED_ELEMENTS
            self._spent_in_all += _most_elements(records)
            raise
        self._spent[id(sender)] = self._spent.get(id(sender), 0) + cost
        self._spent_in_all += cost

    def _end_turn(self) -> None:
        self._spent.clear()
        self._spent_in_all = 0


def _most_elements(records: memoryview) -> int:
    """Every record and every header takes a byte at least, once it is unpacked."""
    is_compressed = read_header(records).compression != 0
    return MAX_COMPACTED_ELEMENTS if is_compressed else min(len(records), MAX_COMPACTED_ELEMENTS)
