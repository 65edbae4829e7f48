"""Batches that arrive before one that their producer sent earlier, which is still on its way, or was refused.

librdkafka takes OUT_OF_ORDER_SEQUENCE as a reason to begin a new epoch. In it, and on all partitions, it numbers anew
and sends again whatever it has no answer for, so that what was written is there twice. That happens when leaders
change: the earlier batch waits at the old one. So at first the producer is told to try again, by an error that
changes nothing on its side, and of the gap only if that stays.

In a transaction the gap does no such harm: it is aborted as a whole, and done again in a new epoch. And it may stay for
ever: librdkafka never sends what it had numbered when it was told to abort. So there the producer hears of it soon,
while its next transaction has time left.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.partition import Partition
from penstock.storage.core.producer_state import ProducerEntry
from penstock.units import SECOND_MS
from penstock.wire.batch import BatchHeader

# Longer than a client needs to give a leader up, to find the next one and to send again.
PATIENCE_MS = 10 * SECOND_MS
TRANSACTION_PATIENCE_MS = SECOND_MS
# Producers at a time; of the longest known the time begins anew.
MOST_PRODUCERS = 4096


class _Gap(NamedTuple):
    """Behind what, in which epoch, and since when. Sequences alone do not tell gaps apart: they begin anew with every

    epoch, and under transactions of version 2 that is every transaction.
    """

    entry: ProducerEntry | None
    producer_epoch: int
    since_ms: int


class Overtaking:
    def __init__(self) -> None:
        self._gaps: dict[tuple[UUID, int, int], _Gap] = {}

    def judge(self, partition: Partition, header: BatchHeader, error: PenstockError, now_ms: int) -> Refused:
        """What to answer to a batch that is out of order."""
        key = (partition.topic_id, partition.index, header.producer_id)
        entry = partition.log.producer_states.find(header.producer_id)
        gap = self._gaps.get(key)
        if gap is None or gap.entry is not entry or gap.producer_epoch != header.producer_epoch:
            self._gaps.pop(key, None)
            if len(self._gaps) >= MOST_PRODUCERS:
                del self._gaps[next(iter(self._gaps))]
            gap = self._gaps[key] = _Gap(entry, header.producer_epoch, now_ms)
        if now_ms - gap.since_ms < (TRANSACTION_PATIENCE_MS if header.is_transactional else PATIENCE_MS):
            return Refused(Problem.EARLIER_BATCH_MISSING, f"{error}; if that one is still on its way, try again")
        return Refused.by(error)
