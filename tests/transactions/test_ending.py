"""EndTxn in both versions, timeouts, and an operator who has enough of it."""

from __future__ import annotations

import itertools
import time

import pytest
from tests.transactions.asking import ID, TIMEOUT_MS, add, end, initialise, partitions, producer_of, started
from tests.transactions.runner import Runner

from penstock.errors import Problem
from penstock.replication.core.machine import Tick
from penstock.transactions.core.answers import AbortAnswer
from penstock.transactions.core.events import AbortTransaction, EndTransaction, MarkersWritten
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.transactions.core.records import TransactionRecord
from penstock.transactions.core.transaction import LAST_EPOCH, Ending, Producer, Transaction, TransactionState

both_ways = pytest.mark.parametrize("commit", [True, False])


@both_ways
def test_version_1_keeps_its_epoch_and_repeats_are_answered_the_same(commit: bool) -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 0, 1)
    assert end(runner, producer, commit=commit, version=1).producer == producer
    (order,) = runner.orders
    assert (order.commit, order.ending, order.topics) == (commit, Ending(producer, 1), partitions(0, 1))
    assert end(runner, producer, commit=commit, version=1).problem is Problem.CONCURRENT_TRANSACTIONS
    assert end(runner, producer, commit=not commit, version=1).problem is Problem.INVALID_TXN_STATE
    runner.write_markers()
    assert end(runner, producer, commit=commit, version=1).problem is None
    assert end(runner, producer, commit=not commit, version=1).problem is Problem.INVALID_TXN_STATE
    assert not runner.orders
    assert add(runner, producer, 0) is None


@both_ways
def test_version_2_gives_the_next_epoch_and_whatever_comes_late_has_one_that_is_over(commit: bool) -> None:
    runner = started()
    producer = producer_of(runner)
    bumped = Producer(producer.id, producer.epoch + 1)
    add(runner, producer, 0)
    assert end(runner, producer, commit=commit, version=2).producer == bumped
    assert runner.orders[0].ending == Ending(bumped, 2)
    assert end(runner, producer, commit=commit, version=2).problem is Problem.CONCURRENT_TRANSACTIONS
    assert end(runner, producer, commit=not commit, version=2).problem is Problem.INVALID_TXN_STATE
    assert end(runner, bumped, commit=False, version=2).problem is Problem.CONCURRENT_TRANSACTIONS
    assert add(runner, bumped, 1) is Problem.CONCURRENT_TRANSACTIONS
    assert add(runner, producer, 1) is Problem.PRODUCER_FENCED
    runner.write_markers()
    runner.die()
    assert end(runner, producer, commit=commit, version=2).producer == bumped, "the answer was lost"
    assert end(runner, producer, commit=not commit, version=2).problem is Problem.INVALID_TXN_STATE
    assert initialise(runner, had=producer).producer == bumped
    assert add(runner, bumped, 0) is None
    assert end(runner, producer, commit=commit, version=2).problem is Problem.PRODUCER_FENCED
    assert runner.transaction().state is TransactionState.ONGOING


def test_an_order_is_given_when_the_decision_is_committed_and_not_before() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 0)
    runner.submit(EndTransaction(ID, producer, True, 1))
    assert not runner.orders
    runner.die(lost=1)
    assert not runner.orders
    assert runner.transaction().state is TransactionState.ONGOING
    runner.submit(EndTransaction(ID, producer, False, 1))
    runner.die()
    assert [order.commit for order in runner.orders] == [False], "it reached the log, and the next leader finishes it"


def test_a_version_2_client_may_abort_what_has_not_begun() -> None:
    runner = started()
    producer = producer_of(runner)
    assert end(runner, producer, commit=True, version=2).problem is Problem.INVALID_TXN_STATE
    answer = end(runner, producer, commit=False, version=2)
    bumped = Producer(producer.id, producer.epoch + 1)
    assert answer.producer == bumped
    assert not runner.orders
    assert end(runner, producer, commit=False, version=2).producer == bumped, "the same again"
    assert add(runner, producer, 0) is Problem.PRODUCER_FENCED, "the batch that it did not know of"
    assert end(runner, bumped, commit=False, version=2).producer == Producer(producer.id, producer.epoch + 2)
    assert end(runner, producer, commit=False, version=2).problem is Problem.PRODUCER_FENCED


def test_version_1_ends_nothing_that_has_not_begun() -> None:
    runner = started()
    producer = producer_of(runner)
    for commit in (True, False):
        assert end(runner, producer, commit=commit, version=1).problem is Problem.INVALID_TXN_STATE


def test_strangers_end_nothing() -> None:
    runner = started()
    assert end(runner, Producer(1, 0), commit=True, version=2).problem is Problem.INVALID_PRODUCER_ID_MAPPING
    producer = producer_of(runner)
    add(runner, producer, 0)
    for version in (1, 2):
        stranger = end(runner, Producer(producer.id + 1, 0), commit=True, version=version)
        assert stranger.problem is Problem.INVALID_PRODUCER_ID_MAPPING
        ahead = end(runner, Producer(producer.id, producer.epoch + 1), commit=True, version=version)
        assert ahead.problem is Problem.PRODUCER_FENCED
    assert runner.transaction().state is TransactionState.ONGOING


@both_ways
def test_when_version_2_runs_out_of_epochs_the_client_goes_on_with_another_id(commit: bool) -> None:
    runner = started()
    last = Producer(5, LAST_EPOCH)
    runner.append(TransactionRecord(ID, Transaction(last, TransactionState.EMPTY, TIMEOUT_MS, 0)))
    add(runner, last, 0)
    renewed = end(runner, last, commit=commit, version=2).producer
    assert renewed.id != 5
    assert renewed.epoch == 0
    assert runner.orders[0].ending.producer == Producer(5, LAST_EPOCH + 1)
    assert add(runner, renewed, 0) is Problem.CONCURRENT_TRANSACTIONS
    runner.write_markers()
    runner.die()
    assert end(runner, last, commit=commit, version=2).producer == renewed
    assert end(runner, last, commit=not commit, version=2).problem is Problem.INVALID_TXN_STATE
    assert add(runner, renewed, 0) is None
    assert end(runner, last, commit=commit, version=2).problem is Problem.INVALID_PRODUCER_ID_MAPPING


def test_a_late_end_in_version_1_does_not_end_the_next_transaction() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 0, connection=3)
    assert end(runner, producer, commit=True, version=1, connection=4).problem is None
    runner.write_markers()
    add(runner, producer, 1, connection=4)
    late = end(runner, producer, commit=True, version=1, connection=3)
    assert late.problem is Problem.TRANSACTION_OVERTAKEN
    assert runner.transaction().state is TransactionState.ONGOING
    assert end(runner, producer, commit=False, version=1, connection=4).problem is None


def test_after_a_failover_only_connections_that_are_younger_than_the_coordinator_count() -> None:
    numbers = itertools.count(10, 10)
    runner = Runner(lambda: TransactionsMachine(TransactionLimits(), began=next(numbers)))
    producer = producer_of(runner)
    add(runner, producer, 0, connection=12)
    runner.die()
    for connection in (3, 12, 19):
        overtaken = end(runner, producer, commit=True, version=1, connection=connection)
        assert overtaken.problem is Problem.TRANSACTION_OVERTAKEN
    assert end(runner, producer, commit=True, version=1, connection=21).problem is None
    runner.write_markers()
    runner.die()
    assert add(runner, producer, 0, connection=21) is Problem.TRANSACTION_OVERTAKEN, "it would begin another"
    assert add(runner, producer, 0, connection=31) is None
    assert end(runner, producer, commit=True, version=1, connection=31).problem is None
    runner.die()
    runner.write_markers()
    taker = producer_of(runner)
    assert add(runner, taker, 0, connection=3) is None, "nothing of it can be older than it"


def test_who_takes_too_long_is_aborted_and_fenced() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 0)
    runner.advance(TIMEOUT_MS // 2)
    add(runner, producer, 1)
    runner.die()
    runner.advance(TIMEOUT_MS // 2 - 1)
    runner.commit()
    assert not runner.orders
    runner.advance(1)
    runner.commit()
    (order,) = runner.orders
    assert (order.commit, order.topics) == (False, partitions(0, 1))
    assert order.ending == Ending(Producer(producer.id, producer.epoch + 1), 2)
    for version in (1, 2):
        assert end(runner, producer, commit=True, version=version).problem is Problem.PRODUCER_FENCED
    assert add(runner, producer, 0) is Problem.PRODUCER_FENCED
    runner.write_markers()
    assert runner.transaction().state is TransactionState.COMPLETE_ABORT
    assert end(runner, producer, commit=False, version=1).problem is Problem.PRODUCER_FENCED


def test_what_a_timeout_costs_does_not_grow_with_how_many_are_due() -> None:
    """After a pause of the coordinator, all of them."""
    machine = TransactionsMachine(TransactionLimits())
    for number in range(10_000):
        ongoing = Transaction(Producer(number, 0), TransactionState.ONGOING, TIMEOUT_MS, 0, 0, partitions(0))
        machine.apply(TransactionRecord(f"{ID}-{number}", ongoing))
    aborted = 0
    started_s = time.process_time()
    while records := machine.decide(Tick(), TIMEOUT_MS).records:
        for record in records:
            machine.apply(record)
        machine.next_deadline_ms()
        aborted += len(records)
    assert (aborted, time.process_time() - started_s < 2) == (10_000, True)


def test_what_has_ended_does_not_time_out() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 0)
    end(runner, producer, commit=True, version=1)
    runner.advance(10 * TIMEOUT_MS)
    runner.commit()
    assert [order.commit for order in runner.orders] == [True]


def test_an_operator_aborts_what_hangs_and_nothing_else() -> None:
    runner = started()

    def abort(producer: Producer | None = None) -> Problem | None:
        return runner.ask(AbortTransaction(ID, producer), AbortAnswer).problem

    assert abort() is Problem.TRANSACTIONAL_ID_NOT_FOUND
    producer = producer_of(runner)
    assert abort() is Problem.INVALID_TXN_STATE
    add(runner, producer, 0)
    assert abort(Producer(producer.id, producer.epoch + 1)) is Problem.INVALID_TXN_STATE, "another than was seen"
    assert abort(producer) is None
    assert abort() is Problem.CONCURRENT_TRANSACTIONS
    assert [order.commit for order in runner.orders] == [False]
    assert end(runner, producer, commit=True, version=2).problem is Problem.PRODUCER_FENCED


def test_markers_of_an_earlier_transaction_complete_no_later_one() -> None:
    runner = started()
    producer = producer_of(runner)
    for _ in range(2):
        add(runner, producer, 0)
        end(runner, producer, commit=True, version=1)
        first = runner.orders[0]
        runner.submit(MarkersWritten(ID, first.ends))
        runner.commit()
        if runner.transaction().ends == 1:
            runner.orders.clear()
    assert runner.transaction().state is TransactionState.COMPLETE_COMMIT
    add(runner, producer, 0)
    end(runner, producer, commit=True, version=1)
    runner.submit(MarkersWritten(ID, first.ends))
    runner.commit()
    assert runner.transaction().state is TransactionState.PREPARE_COMMIT
