"""What the events are answered with. `problem` None means success; the other fields then hold."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import Problem
from penstock.transactions.core.transaction import Producer, TopicPartitions

NO_PRODUCER = Producer(-1, -1)


class ProducerAnswer(Struct, frozen=True):
    """To InitProducerId and EndTransaction: who the client is from now on.

    `needs_producer_id`: nothing has happened; the event has to come again with a fresh one.
    """

    problem: Problem | None
    producer: Producer = NO_PRODUCER
    needs_producer_id: bool = False


NEEDS_PRODUCER_ID = ProducerAnswer(None, needs_producer_id=True)


class AddAnswer(Struct, frozen=True):
    """It holds for all partitions: they are added together or not at all."""

    problem: Problem | None


class VerifyAnswer(Struct, frozen=True):
    """`absent`: those that are not in the transaction; they are refused with TRANSACTION_ABORTABLE."""

    problem: Problem | None
    absent: tuple[TopicPartitions, ...] = ()


class AbortAnswer(Struct, frozen=True):
    problem: Problem | None


class ListedTransaction(Struct, frozen=True):
    transactional_id: str
    producer_id: int
    state: str


class ListAnswer(Struct, frozen=True):
    transactions: tuple[ListedTransaction, ...]
    unknown_states: tuple[str, ...] = ()


class DescribeAnswer(Struct, frozen=True):
    problem: Problem | None
    transactional_id: str
    state: str = ""
    producer: Producer = NO_PRODUCER
    timeout_ms: int = 0
    started_ms: int = -1
    topics: tuple[TopicPartitions, ...] = ()


class Done(Struct, frozen=True):
    """Answers events that nobody waits for."""


TransactionAnswer = ProducerAnswer | AddAnswer | VerifyAnswer | AbortAnswer | ListAnswer | DescribeAnswer | Done
