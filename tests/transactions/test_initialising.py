"""InitProducerId with a transactional id."""

from __future__ import annotations

import pytest
from tests.transactions.asking import ID, TIMEOUT_MS, add, end, initialise, producer_of, started, verify

from penstock.errors import Problem
from penstock.transactions.core.answers import ProducerAnswer
from penstock.transactions.core.events import InitProducerId
from penstock.transactions.core.limits import MAX_TRANSACTIONAL_ID_CHARACTERS, TransactionLimits
from penstock.transactions.core.records import TransactionRecord
from penstock.transactions.core.transaction import LAST_EPOCH, Producer, Transaction, TransactionState


def test_a_new_id_gets_a_producer_id_and_every_taker_another_epoch() -> None:
    runner = started()
    first = producer_of(runner)
    second = producer_of(runner)
    assert (first.epoch, second) == (0, Producer(first.id, 1))
    assert add(runner, first, 0) is Problem.PRODUCER_FENCED
    assert end(runner, first, commit=True, version=1).problem is Problem.PRODUCER_FENCED
    assert initialise(runner, had=first).problem is Problem.PRODUCER_FENCED
    assert add(runner, second, 0) is None


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (InitProducerId("", TIMEOUT_MS), Problem.INVALID_REQUEST),
        (InitProducerId("x" * (MAX_TRANSACTIONAL_ID_CHARACTERS + 1), TIMEOUT_MS), Problem.INVALID_REQUEST),
        (InitProducerId(ID, TIMEOUT_MS, producer_id=7), Problem.INVALID_REQUEST),
        (InitProducerId(ID, TIMEOUT_MS, producer_epoch=7), Problem.INVALID_REQUEST),
        (InitProducerId(ID, 0), Problem.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId(ID, -1), Problem.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId(ID, 900_001), Problem.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_bad_requests_change_nothing(event: InitProducerId, problem: Problem) -> None:
    runner = started()
    assert runner.ask(event, ProducerAnswer).problem is problem
    assert not runner.log


def test_a_coordinator_has_only_so_many_ids() -> None:
    runner = started(TransactionLimits(max_ids=2))
    for name in ("a", "b"):
        assert runner.ask(InitProducerId(name, TIMEOUT_MS), ProducerAnswer).problem is None
    assert runner.ask(InitProducerId("c", TIMEOUT_MS), ProducerAnswer).problem is Problem.POLICY_VIOLATION
    assert runner.ask(InitProducerId("a", TIMEOUT_MS), ProducerAnswer).problem is None


def test_a_client_goes_on_after_an_error_and_a_repeated_question_gets_the_same_answer() -> None:
    runner = started()
    first = producer_of(runner)
    second = initialise(runner, had=first).producer
    assert second == Producer(first.id, first.epoch + 1)
    runner.die()
    assert initialise(runner, had=first).producer == second
    assert add(runner, second, 0) is None
    assert initialise(runner, had=first).problem is Problem.PRODUCER_FENCED, "it was answered: this one came late"
    assert runner.transaction().state is TransactionState.ONGOING


def test_an_ongoing_transaction_is_aborted_for_whoever_takes_over_and_fenced_before_that() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 1, 2)
    assert initialise(runner).problem is Problem.CONCURRENT_TRANSACTIONS
    (order,) = runner.orders
    assert (order.commit, order.ending.producer) == (False, Producer(producer.id, producer.epoch + 1))
    assert initialise(runner).problem is Problem.CONCURRENT_TRANSACTIONS
    assert end(runner, producer, commit=True, version=1).problem is Problem.PRODUCER_FENCED
    runner.write_markers()
    assert initialise(runner).producer == Producer(producer.id, producer.epoch + 2)


def test_a_client_that_gives_its_own_transaction_up_gets_the_id_back() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 1)
    assert initialise(runner, had=producer).problem is Problem.CONCURRENT_TRANSACTIONS
    runner.write_markers()
    assert initialise(runner, had=producer).producer == Producer(producer.id, producer.epoch + 1)


def test_who_was_fenced_does_not_abort_the_transaction_of_its_successor() -> None:
    runner = started()
    old, new = producer_of(runner), producer_of(runner)
    add(runner, new, 1)
    assert initialise(runner, had=old).problem is Problem.PRODUCER_FENCED
    assert runner.transaction().state is TransactionState.ONGOING
    assert not runner.orders


@pytest.mark.parametrize("epoch", [LAST_EPOCH, LAST_EPOCH + 1])
def test_when_the_epochs_are_used_up_there_is_a_new_producer_id(epoch: int) -> None:
    runner = started()
    runner.append(TransactionRecord(ID, Transaction(Producer(5, epoch), TransactionState.EMPTY, TIMEOUT_MS, 0)))
    answer = initialise(runner)
    assert answer.problem is None
    assert answer.producer.id != 5
    assert answer.producer.epoch == 0


def test_no_client_ever_gets_the_epoch_that_fences_the_last() -> None:
    runner = started()
    last = Producer(5, LAST_EPOCH)
    runner.append(TransactionRecord(ID, Transaction(last, TransactionState.EMPTY, TIMEOUT_MS, 0)))
    add(runner, last, 1)
    assert initialise(runner, had=last).problem is Problem.CONCURRENT_TRANSACTIONS
    assert runner.orders[0].ending.producer == Producer(5, LAST_EPOCH + 1)
    runner.write_markers()
    assert end(runner, last, commit=False, version=2).problem is Problem.PRODUCER_FENCED
    renewed = initialise(runner, had=last).producer
    assert renewed.id != 5
    assert initialise(runner, had=last).producer == renewed


@pytest.mark.parametrize("version", [1, 2])
def test_nobody_begins_or_ends_anything_in_the_epoch_that_fences_the_last(version: int) -> None:
    """There is none above it, so nothing could fence it: no marker has room for such an epoch."""
    runner = started()
    last = Producer(5, LAST_EPOCH)
    runner.append(TransactionRecord(ID, Transaction(last, TransactionState.EMPTY, TIMEOUT_MS, 0)))
    add(runner, last, 1)
    initialise(runner)
    runner.write_markers()
    before = runner.transaction()
    assert before.producer == last.fencing
    assert add(runner, last.fencing, 1) is Problem.PRODUCER_FENCED
    assert verify(runner, last.fencing, 1).problem is Problem.PRODUCER_FENCED
    assert end(runner, last.fencing, commit=False, version=version).problem is Problem.PRODUCER_FENCED
    assert runner.transaction() == before
