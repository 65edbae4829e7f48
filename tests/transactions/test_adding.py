"""Partitions of a transaction: added and verified."""

from __future__ import annotations

from tests.transactions.asking import ID, add, end, initialise, partitions, producer_of, started, verify

from penstock.errors import Problem
from penstock.transactions.core.answers import AddAnswer
from penstock.transactions.core.events import AddPartitions, EndTransaction
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.transaction import Producer, TopicPartitions, TransactionState


def test_partitions_add_up_and_what_is_there_already_writes_nothing() -> None:
    runner = started()
    producer = producer_of(runner)
    assert add(runner, producer, 3, 1) is None
    written = len(runner.log)
    assert add(runner, producer, 1) is None
    assert len(runner.log) == written
    assert add(runner, producer, 2) is None
    other = AddPartitions(ID, producer, partitions(0, topic="__consumer_offsets"))
    assert runner.ask(other, AddAnswer).problem is None
    runner.die(compacted=True)
    found = runner.transaction()
    assert found.topics == (TopicPartitions("__consumer_offsets", (0,)), TopicPartitions("orders", (1, 2, 3)))
    assert found.started_ms == runner.now_ms


def test_strangers_are_refused_and_change_nothing() -> None:
    runner = started()
    assert add(runner, Producer(1, 0), 0) is Problem.INVALID_PRODUCER_ID_MAPPING
    producer = producer_of(runner)
    written = len(runner.log)
    assert add(runner, Producer(producer.id + 1, 0), 0) is Problem.INVALID_PRODUCER_ID_MAPPING
    assert add(runner, Producer(producer.id, 1), 0) is Problem.PRODUCER_FENCED
    nameless = AddPartitions("", producer, partitions(0))
    assert runner.ask(nameless, AddAnswer).problem is Problem.INVALID_REQUEST
    assert verify(runner, Producer(producer.id, 1), 0).problem is Problem.PRODUCER_FENCED
    assert len(runner.log) == written


def test_a_leader_is_told_which_partitions_are_not_in_the_transaction() -> None:
    runner = started()
    producer = producer_of(runner)
    assert verify(runner, producer, 0).absent == partitions(0), "nothing has begun"
    add(runner, producer, 0, 1)
    assert verify(runner, producer, 0, 1).absent == ()
    assert verify(runner, producer, 1, 2).absent == partitions(2)
    end(runner, producer, commit=True, version=1)
    assert verify(runner, producer, 0).problem is Problem.CONCURRENT_TRANSACTIONS
    assert add(runner, producer, 5) is Problem.CONCURRENT_TRANSACTIONS
    runner.write_markers()
    assert verify(runner, producer, 0).absent == partitions(0)


def test_nothing_to_add_begins_nothing() -> None:
    runner = started()
    producer = producer_of(runner)
    assert runner.ask(AddPartitions(ID, producer, ()), AddAnswer).problem is None
    assert runner.transaction().state is TransactionState.EMPTY


def test_a_transaction_has_only_so_many_partitions_and_can_then_still_be_ended() -> None:
    runner = started(TransactionLimits(max_partitions=3, max_partition_bytes=100))
    producer = producer_of(runner)
    assert add(runner, producer, 1, 2, 3) is None
    assert add(runner, producer, 4) is Problem.TRANSACTION_ABORTABLE
    assert end(runner, producer, commit=False, version=1).problem is None
    runner.write_markers()
    long_name = AddPartitions(ID, producer, partitions(0, topic="t" * 96))
    assert runner.ask(long_name, AddAnswer).problem is Problem.TRANSACTION_ABORTABLE


def test_what_comes_on_an_older_connection_than_the_transaction_was_used_on_came_late() -> None:
    runner = started()
    producer = producer_of(runner)
    assert add(runner, producer, 0, connection=7) is None
    assert add(runner, producer, 1, connection=5) is Problem.TRANSACTION_OVERTAKEN
    assert end(runner, producer, commit=True, version=1, connection=7).problem is None
    runner.write_markers()
    assert add(runner, producer, 1, connection=5) is Problem.TRANSACTION_OVERTAKEN, "it would begin another"
    assert add(runner, producer, 1, connection=8) is None


def test_another_client_may_have_an_older_connection() -> None:
    runner = started()
    add(runner, producer_of(runner), 0, connection=7)
    initialise(runner)
    runner.write_markers()
    taker = producer_of(runner)
    assert add(runner, taker, 0, connection=3) is None
    late = EndTransaction(ID, taker, commit=True, transaction_version=1, connection=2)
    runner.submit(late)
    runner.commit()
    assert runner.transaction().state is TransactionState.ONGOING
