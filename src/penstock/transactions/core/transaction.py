"""A transactional id as the coordinator knows it: who may use it, and how its transaction stands."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from penstock.transactions.core.query import Claim


class TransactionState(Enum):
    """The value is Kafka's name, which ListTransactions shows and filters by.

    PrepareCommit and PrepareAbort are the decision: what is prepared is finished by whoever leads, whatever dies.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMMITS = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
_ABORTS = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)

LAST_EPOCH = 2**15 - 2
"""The highest that a client gets, as in Kafka: the one above it is there to fence whoever has this one."""


class Producer(Struct, frozen=True, array_like=True, gc=False):
    """A producer id in one of its epochs."""

    id: int
    epoch: int

    @property
    def fencing(self) -> Producer:
        return Producer(self.id, self.epoch + 1)

    @property
    def is_last(self) -> bool:
        """The next one needs another id."""
        return self.epoch >= LAST_EPOCH

    @property
    def is_for_clients(self) -> bool:
        return self.epoch <= LAST_EPOCH

    def next(self, fresh_producer_id: int) -> Producer | None:
        """What its client has after it; None: that needs a new id, and there is none."""
        if not self.is_last:
            return self.fencing
        return Producer(fresh_producer_id, 0) if fresh_producer_id >= 0 else None


class TopicPartitions(Struct, frozen=True, array_like=True):
    topic: str
    partitions: tuple[int, ...]


class Ending(Struct, frozen=True, array_like=True, gc=False):
    """What the markers of a prepared transaction say."""

    producer: Producer
    transaction_version: int
    """2: the marker's epoch is above that of every record of the transaction, so whatever has this epoch came later."""


class Transaction(Struct, frozen=True, array_like=True):
    """The whole state of a transactional id: the value of its record."""

    producer: Producer
    """Whoever has it may use the id."""
    state: TransactionState
    timeout_ms: int
    updated_ms: int
    started_ms: int = -1
    """Of the transaction that is there, or was last; -1: none since a producer was initialised."""
    topics: tuple[TopicPartitions, ...] = ()
    """By name; the partitions of each in order."""
    previous: Producer | None = None
    """What the client of `producer` had before, as long as it may not know that: an answer may be lost. Gone with the

    first use of `producer`. None also when whoever had the one before is fenced.
    """
    ending: Ending | None = None
    """While it is prepared."""
    ends: int = 0
    """How many transactions of this id have ended: tells them apart where no epoch does."""
    claim: Claim | None = None
    """If it is a query's: what it is used for, or was last."""

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def is_prepared(self) -> bool:
        return self.state in _PREPARED

    @property
    def deadline_ms(self) -> int | None:
        return self.started_ms + self.timeout_ms if self.is_ongoing else None

    @property
    def has_ended(self) -> bool:
        """Also when only the markers are missing."""
        return self.has_ended_with(commit=True) or self.has_ended_with(commit=False)

    def has_ended_with(self, commit: bool) -> bool:
        return self.state in (_COMMITS if commit else _ABORTS)

    def has_partition(self, topic: str, partition: int) -> bool:
        return any(row.topic == topic and partition in row.partitions for row in self.topics)

    def initialised(self, producer: Producer, previous: Producer | None, timeout_ms: int, now_ms: int) -> Transaction:
        return Transaction(producer, TransactionState.EMPTY, timeout_ms, now_ms, previous=previous, ends=self.ends)

    def extended(self, topics: tuple[TopicPartitions, ...], now_ms: int) -> Transaction:
        """With all these partitions; begun if it is not."""
        return replace(
            self,
            state=TransactionState.ONGOING,
            updated_ms=now_ms,
            started_ms=self.started_ms if self.is_ongoing else now_ms,
            topics=topics,
            previous=None,
        )

    def prepared(
        self, commit: bool, producer: Producer, previous: Producer | None, ending: Ending, now_ms: int
    ) -> Transaction:
        """It ends so; its client goes on as `producer`."""
        return replace(
            self,
            producer=producer,
            previous=previous,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            ending=ending,
            ends=self.ends + 1,
            updated_ms=now_ms,
        )

    def completed(self, now_ms: int) -> Transaction:
        commit = self.state is TransactionState.PREPARE_COMMIT
        return replace(
            self,
            state=TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
            topics=(),
            ending=None,
            updated_ms=now_ms,
        )

    def ended_empty(self, producer: Producer, now_ms: int) -> Transaction:
        """Aborted before it had any partition: nobody is to be told, but the producer is another."""
        return replace(
            self,
            producer=producer,
            previous=self.producer,
            state=TransactionState.COMPLETE_ABORT,
            ends=self.ends + 1,
            updated_ms=now_ms,
        )


def united(topics: tuple[TopicPartitions, ...], added: Iterable[TopicPartitions]) -> tuple[TopicPartitions, ...]:
    """The same object if nothing is new."""
    known = {row.topic: set(row.partitions) for row in topics}
    is_new = False
    for row in added:
        partitions = known.setdefault(row.topic, set()) if row.partitions else known.get(row.topic, set())
        if not partitions.issuperset(row.partitions):
            partitions.update(row.partitions)
            is_new = True
    if not is_new:
        return topics
    return tuple(TopicPartitions(topic, tuple(sorted(known[topic]))) for topic in sorted(known))
