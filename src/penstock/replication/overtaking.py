"""Batches that arrive before one that their producer sent earlier, which is still on its way, or was refused.

librdkafka takes OUT_OF_ORDER_SEQUENCE as a reason to begin a new epoch. In it, and on all partitions, it numbers anew
and sends again whatever it has no answer for, so that what was written is there twice. That happens when leaders
change: the earlier batch waits at the old one. So at first the producer is told to try again, by an error that
changes nothing on its side, and of the gap only if that stays.

In a transaction the gap does no such harm: it is aborted as a whole, and done again in a new epoch. And it may stay for
ever: librdkafka never sends what it had numbered when it was told to abort. So there the producer hears of it soon,
while its next transaction has time left.

A producer that is not known may begin anywhere, because it may have expired. But where another led a moment ago, or
nobody did, its first batch may be there still, or was refused. Its second one, taken for the first, would make
librdkafka report both as delivered, or fail for good. So a new leader takes only what begins at the beginning.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.partition import Partition
from penstock.storage.core.producer_state import ProducerEntry
from penstock.units import MINUTE_MS, SECOND_MS
from penstock.wire.batch import BatchHeader

# Longer than a client needs to give a leader up, to find the next one and to send again.
PATIENCE_MS = 10 * SECOND_MS
TRANSACTION_PATIENCE_MS = SECOND_MS
# Of a leader. As long as clients wait for an answer of the one before, should that have stopped without a word.
NEW_FOR_MS = MINUTE_MS
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


def check_start(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    """Raises PenstockError for a batch that cannot be a producer's first, if a new leader knows of none before it."""
    leadership = partition.leadership
    if leadership is None or now_ms - leadership.since_ms >= NEW_FOR_MS:
        return
    states = partition.log.producer_states
    if states.find(header.producer_id) is None:
        # When this leader is new no more, it begins with the first that was refused.
        states.refuse(header, now_ms)
        raise PenstockError(
            Problem.EARLIER_BATCH_MISSING,
            f"producer {header.producer_id} begins with sequence {header.base_sequence} at a new leader: if it sent "
            "something before, that has to come first, and otherwise it may begin so in a minute",
        )
