"""Partitions that a transaction writes to: added before the first batch, asked for by clients or by leaders."""

from __future__ import annotations

from penstock.errors import Problem
from penstock.transactions.core.answers import AddAnswer, VerifyAnswer
from penstock.transactions.core.checks import checked
from penstock.transactions.core.draft import Draft
from penstock.transactions.core.events import AddPartitions, VerifyPartitions
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import TopicPartitions, united
from penstock.transactions.core.volatile import UsedOn

_PARTITION_BYTES = 5
"""What a number takes in msgpack, at most."""


def add(state: TransactionsState, event: AddPartitions, limits: TransactionLimits, draft: Draft) -> AddAnswer:
    found = checked(state, event.transactional_id, event.producer)
    if isinstance(found, Problem):
        return AddAnswer(found)
    if event.connection is not None and event.connection < state.oldest_connection(event.transactional_id):
        return AddAnswer(Problem.TRANSACTION_OVERTAKEN)
    topics = united(found.topics, event.topics)
    if topics is not found.topics:
        if not _fits(topics, limits):
            return AddAnswer(Problem.TRANSACTION_ABORTABLE)
        draft.write(event.transactional_id, found.extended(topics, draft.now_ms))
    if event.connection is not None:
        draft.note(UsedOn(event.transactional_id, event.connection))
    return AddAnswer(None)


def _fits(topics: tuple[TopicPartitions, ...], limits: TransactionLimits) -> bool:
    count = sum(len(row.partitions) for row in topics)
    return count <= limits.max_partitions and size_of(topics) <= limits.max_partition_bytes


def size_of(topics: tuple[TopicPartitions, ...]) -> int:
    """In bytes, about."""
    return sum(len(row.topic.encode()) + _PARTITION_BYTES * len(row.partitions) for row in topics)


def verify(state: TransactionsState, event: VerifyPartitions) -> VerifyAnswer:
    """Whether the answer still holds when it arrives is for the log to know: it has a guard (ADR 0008)."""
    found = checked(state, event.transactional_id, event.producer)
    if isinstance(found, Problem):
        return VerifyAnswer(found)
    rows = []
    for row in event.topics:
        absent = tuple(partition for partition in row.partitions if not found.has_partition(row.topic, partition))
        if absent:
            rows.append(TopicPartitions(row.topic, absent))
    return VerifyAnswer(None, tuple(rows))
