"""Producers that commit offsets in transactions, as tests see them."""

from __future__ import annotations

import itertools

from msgspec.structs import replace
from tests.groups.runner import Runner

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, FetchAnswer, FetchedOffset
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import CommitOffsets, FetchOffsets, OffsetToCommit, TopicOffsets, TopicPartitions
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.groups.core.transaction_events import TransactionEnded, TransactionEndedAnswer, TxnOffsetCommit

PRODUCER = 7
# Younger than every machine of a test.
CONNECTION = 1_000_000


def numbered(limits: GroupLimits | None = None) -> Runner:
    """Machines of which none takes another's guards, as in a broker."""
    chosen = limits or GroupLimits(initial_rebalance_delay_ms=0)
    numbers = itertools.count(1)
    return Runner(lambda: GroupsMachine(chosen, ConsumerLimits(), began=next(numbers)))


def sending(
    offset: int = 42,
    *,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    group_id: str = "group",
    topic: str = "orders",
    partition: int = 0,
    connection: int = CONNECTION,
) -> TxnOffsetCommit:
    topics = (TopicOffsets(topic, (OffsetToCommit(partition, offset),)),)
    return TxnOffsetCommit(group_id, producer_id, epoch, topics, connection=connection)


def send(runner: Runner, event: TxnOffsetCommit) -> Problem | None:
    """As if the transaction's coordinator had said yes at once."""
    guard = runner.machine.transaction_guard(event.producer_id, event.producer_epoch)
    return runner.ask(replace(event, guard=guard), CommitAnswer).problem


def ending(
    *,
    committed: bool = True,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    coordinator_epoch: int = 1,
    bumps_epoch: bool = False,
) -> TransactionEnded:
    return TransactionEnded(producer_id, epoch, coordinator_epoch, committed, bumps_epoch)


def end(runner: Runner, event: TransactionEnded) -> Problem | None:
    return runner.ask(event, TransactionEndedAnswer).problem


def commit(runner: Runner, offset: int, partition: int = 0) -> None:
    """Outside of transactions."""
    event = CommitOffsets("group", (TopicOffsets("orders", (OffsetToCommit(partition, offset),)),))
    assert runner.ask(event, CommitAnswer).problem is None


def fetched(
    runner: Runner, partition: int = 0, *, group_id: str = "group", topic: str = "orders", stable: bool = False
) -> FetchedOffset:
    event = FetchOffsets(group_id, (TopicPartitions(topic, (partition,)),), require_stable=stable)
    return runner.ask(event, FetchAnswer).topics[0].partitions[0]


def is_unstable(runner: Runner, partition: int = 0, *, group_id: str = "group", topic: str = "orders") -> bool:
    row = fetched(runner, partition, group_id=group_id, topic=topic, stable=True)
    assert row.problem in (None, Problem.UNSTABLE_OFFSET_COMMIT)
    return row.problem is not None
