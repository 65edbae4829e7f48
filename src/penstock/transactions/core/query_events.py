"""What the tasks and the driver of a query ask for."""

from __future__ import annotations

from msgspec import Struct

from penstock.transactions.core.transaction import Producer


class OpenAttempt(Struct, frozen=True):
    """A task is about to write a part of a batch. The first of a new run, for a batch that is not committed, replaces

    the run before it.

    `once`: as in `Query`. `fresh_producer_id`: as in InitProducerId.
    """

    query: str
    run: str
    batch_id: int
    timeout_ms: int
    once: bool = False
    fresh_producer_id: int = -1


class AttemptProducer(Struct, frozen=True):
    transactional_id: str
    producer: Producer


class CommitBatch(Struct, frozen=True):
    """All attempts that make up the batch; what else was written for it is aborted."""

    query: str
    run: str
    batch_id: int
    attempts: tuple[AttemptProducer, ...]
    once: bool = False


class AbortBatch(Struct, frozen=True):
    """The driver gives the batch up: this run will not commit it. Its tasks may not even have begun."""

    query: str
    run: str
    batch_id: int
    once: bool = False


QueryEvent = OpenAttempt | CommitBatch | AbortBatch
