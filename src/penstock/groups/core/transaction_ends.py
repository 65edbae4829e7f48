"""Which transactions a machine has seen end: so that nothing is added to one that is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.groups.core.transaction_events import TransactionGuard

REMEMBERED_PRODUCERS = 2000
"""A commit waits for the answer of one broker, while so many other producers can hardly end a transaction in one

partition. If they do, the commit is tried again. At about 200 bytes each, 50 partitions take 20 MB.
"""


@dataclass(frozen=True, slots=True)
class TransactionOver:
    """The marker's epoch, and that of the transaction coordinator which wrote it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class End(NamedTuple):
    producer_epoch: int
    coordinator_epoch: int
    number: int


class TransactionEnds:
    """The newest end of each producer, of those that ended one lately. A part of `Volatile`."""

    def __init__(self, machine: int) -> None:
        self._machine = machine
        self._count = 0
        # Ends up to this number may have been forgotten.
        self._forgotten = 0
        # In the order of their numbers.
        self._newest: dict[int, End] = {}

    def of(self, producer_id: int) -> End | None:
        return self._newest.get(producer_id)

    def guard(self) -> TransactionGuard:
        return TransactionGuard(self._machine, self._count)

    def is_void(self, guard: TransactionGuard, producer_id: int) -> bool:
        """Whether a transaction of this producer may have ended since."""
        if guard.machine != self._machine or guard.ends < self._forgotten:
            return True
        end = self._newest.get(producer_id)
        return end is not None and end.number > guard.ends

    def remember(self, over: TransactionOver) -> None:
        self._count += 1
        self._newest.pop(over.producer_id, None)
        self._newest[over.producer_id] = End(over.producer_epoch, over.coordinator_epoch, self._count)
        if len(self._newest) > REMEMBERED_PRODUCERS:
            oldest = next(iter(self._newest))
            self._forgotten = self._newest.pop(oldest).number
