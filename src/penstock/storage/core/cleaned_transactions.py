"""What compaction knows of transactions while it walks over a log."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.storage.core.aborted import AbortedTransaction
from penstock.wire.batch import BatchHeader
from penstock.wire.control import Marker


class CleanedTransactions:
    """Told of every transactional and every control batch, in order; all of them below the last stable offset.

    `aborted`: those whose markers are not before the first batch. One that was would seem to go on for ever.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        # The next one last.
        self._waiting = sorted(aborted, key=_first_offset, reverse=True)
        # By producer: whether there is anything of it but the marker.
        self._aborted: dict[int, bool] = {}
        self._committed: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        self._go_to(header.last_offset)
        if header.producer_id in self._aborted:
            self._aborted[header.producer_id] = True
            return True
        self._committed.add(header.producer_id)
        return False

    def leaves_nothing(self, header: BatchHeader, marker: Marker) -> bool:
        """Whether there was no batch of the transaction that it ends: then nobody needs the marker for long."""
        self._go_to(header.last_offset)
        if not marker.is_commit:
            return not self._aborted.pop(header.producer_id, False)
        had_some = header.producer_id in self._committed
        self._committed.discard(header.producer_id)
        return not had_some

    def _go_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            self._aborted[self._waiting.pop().producer_id] = False


def _first_offset(aborted: AbortedTransaction) -> int:
    return aborted.first_offset
