"""Batches of a query: committed together, once, by the run that has begun last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.transactions.asking import TIMEOUT_MS, partitions, started
from tests.transactions.runner import Runner

from penstock.errors import Problem
from penstock.transactions.core.answers import AddAnswer, ProducerAnswer
from penstock.transactions.core.events import AddPartitions, EndTransaction, InitProducerId
from penstock.transactions.core.limits import ONCE_KEPT_MS, TransactionLimits
from penstock.transactions.core.query_answers import AttemptAnswer, BatchAnswer
from penstock.transactions.core.query_events import AbortBatch, AttemptProducer, CommitBatch, OpenAttempt
from penstock.transactions.core.records import TransactionRecord
from penstock.transactions.core.transaction import LAST_EPOCH, Producer, TransactionState
from penstock.units import DAY_MS, HOUR_MS

QUERY = "query"


def opened(runner: Runner, batch_id: int, run: str = "a", *, once: bool = False) -> AttemptProducer:
    answer = runner.ask(OpenAttempt(QUERY, run, batch_id, TIMEOUT_MS, once), AttemptAnswer)
    assert (answer.problem, answer.is_committed) == (None, False)
    return AttemptProducer(answer.transactional_id, answer.producer)


def written(runner: Runner, batch_id: int, run: str = "a", *, once: bool = False) -> AttemptProducer:
    attempt = opened(runner, batch_id, run, once=once)
    assert added(runner, attempt) is None
    return attempt


def added(runner: Runner, attempt: AttemptProducer) -> Problem | None:
    return runner.ask(AddPartitions(attempt.transactional_id, attempt.producer, partitions(0)), AddAnswer).problem


def commit(
    runner: Runner, batch_id: int, *attempts: AttemptProducer, run: str = "a", once: bool = False
) -> BatchAnswer:
    return runner.ask(CommitBatch(QUERY, run, batch_id, attempts, once), BatchAnswer)


def state_of(runner: Runner, attempt: AttemptProducer) -> TransactionState:
    return runner.transaction(attempt.transactional_id).state


def last_batch(runner: Runner) -> int:
    return runner.machine.state.queries[QUERY].batch_id


def test_all_attempts_of_a_batch_are_committed_by_one_decision() -> None:
    runner = started()
    attempts = [written(runner, 0) for _ in range(3)]
    decision = runner.machine.decide(CommitBatch(QUERY, "a", 0, tuple(attempts)), runner.now_ms)
    assert len(decision.records) == len(decision.orders) + 1 == 4
    assert commit(runner, 0, *attempts) == BatchAnswer(None)
    assert {state_of(runner, each) for each in attempts} == {TransactionState.PREPARE_COMMIT}
    runner.write_markers()
    assert {state_of(runner, each) for each in attempts} == {TransactionState.COMPLETE_COMMIT}
    assert last_batch(runner) == 0


def test_a_commit_whose_answer_was_lost_is_repeated_without_harm() -> None:
    runner = started()
    attempts = [written(runner, 0), written(runner, 0)]
    commit(runner, 0, *attempts)
    log = list(runner.log)
    assert commit(runner, 0, *attempts) == BatchAnswer(None, is_repeated=True)
    assert runner.log == log
    runner.write_markers()
    assert commit(runner, 0, *attempts) == BatchAnswer(None, is_repeated=True)
    assert {state_of(runner, each) for each in attempts} == {TransactionState.COMPLETE_COMMIT}


def test_a_batch_is_committed_with_all_that_is_named_or_not_at_all() -> None:
    runner = started()
    whole, late = written(runner, 0), written(runner, 0)
    unknown = AttemptProducer("__query/query/77", Producer(77, 0))
    empty = opened(runner, 0)
    foreign = written(runner, 1)
    old = AttemptProducer(whole.transactional_id, Producer(whole.producer.id, whole.producer.epoch + 1))
    refusals = [
        (unknown, Problem.INVALID_PRODUCER_ID_MAPPING),
        (old, Problem.PRODUCER_FENCED),
        (empty, Problem.INVALID_TXN_STATE),
        (foreign, Problem.PRODUCER_FENCED),
        (late, Problem.INVALID_REQUEST),
    ]
    log = list(runner.log)
    for attempt, problem in refusals:
        answer = commit(runner, 0, late, attempt)
        assert answer.problem is problem
        assert attempt.transactional_id in answer.text
    assert runner.log == log
    assert commit(runner, 0, whole, late).problem is None


def test_an_attempt_that_timed_out_takes_its_batch_with_it() -> None:
    runner = started()
    attempts = [written(runner, 0), written(runner, 0)]
    runner.advance(TIMEOUT_MS)
    assert commit(runner, 0, *attempts).problem is Problem.PRODUCER_FENCED
    assert runner.machine.state.queries[QUERY].batch_id == -1


def test_what_is_not_named_is_aborted() -> None:
    runner = started()
    winner, loser, idle = written(runner, 0), written(runner, 0), opened(runner, 0)
    commit(runner, 0, winner)
    assert added(runner, loser) is Problem.PRODUCER_FENCED
    assert added(runner, idle) is Problem.PRODUCER_FENCED
    runner.run_due()
    assert state_of(runner, loser) is TransactionState.PREPARE_ABORT
    runner.write_markers()
    assert state_of(runner, loser) is TransactionState.COMPLETE_ABORT


def test_a_replayed_batch_is_not_written_again() -> None:
    runner = started()
    commit(runner, 4, written(runner, 4))
    replayed = runner.ask(OpenAttempt(QUERY, "b", 4, TIMEOUT_MS), AttemptAnswer)
    assert replayed == AttemptAnswer(None, is_committed=True)
    assert commit(runner, 4, run="b") == BatchAnswer(None, is_repeated=True)
    assert commit(runner, 5, written(runner, 5, "b"), run="b") == BatchAnswer(None)


def test_who_repeats_an_old_batch_replaces_nobody() -> None:
    """A job that is run once more for a version that is there, while the next version is being written."""
    runner = started()
    commit(runner, 4, written(runner, 4))
    newer = written(runner, 5)
    assert runner.ask(OpenAttempt(QUERY, "b", 4, TIMEOUT_MS), AttemptAnswer).is_committed
    assert commit(runner, 4, run="b") == BatchAnswer(None, is_repeated=True)
    assert commit(runner, 5, newer) == BatchAnswer(None)


def test_of_two_runs_with_the_same_batch_one_wins() -> None:
    runner = started()
    first = [written(runner, 0, "a"), written(runner, 0, "a")]
    second = [written(runner, 0, "b")]
    assert commit(runner, 0, *first, run="a").problem is Problem.PRODUCER_FENCED
    assert commit(runner, 0, *second, run="b") == BatchAnswer(None)
    runner.run_due()
    runner.write_markers()
    assert [state_of(runner, each) for each in first] == [TransactionState.COMPLETE_ABORT] * 2
    assert state_of(runner, second[0]) is TransactionState.COMPLETE_COMMIT


def test_a_run_that_begins_aborts_and_fences_what_the_one_before_left_open() -> None:
    runner = started()
    left, idle = written(runner, 3, "a"), opened(runner, 3, "a")
    opened(runner, 3, "b")
    assert added(runner, idle) is Problem.PRODUCER_FENCED
    runner.run_due()
    runner.write_markers()
    assert state_of(runner, left) is TransactionState.COMPLETE_ABORT
    late = runner.ask(OpenAttempt(QUERY, "a", 3, TIMEOUT_MS), AttemptAnswer)
    assert late.problem is Problem.PRODUCER_FENCED
    assert commit(runner, 3, run="a").problem is Problem.PRODUCER_FENCED


def test_a_batch_that_is_given_up_stays_so() -> None:
    runner = started()
    attempt = written(runner, 0)
    assert runner.ask(AbortBatch(QUERY, "a", 0), BatchAnswer) == BatchAnswer(None)
    assert commit(runner, 0, attempt).problem is Problem.INVALID_TXN_STATE
    assert runner.ask(OpenAttempt(QUERY, "a", 0, TIMEOUT_MS), AttemptAnswer).problem is Problem.INVALID_TXN_STATE
    runner.run_due()
    assert state_of(runner, attempt) is TransactionState.PREPARE_ABORT
    assert commit(runner, 0, written(runner, 0, "b"), run="b") == BatchAnswer(None)


def test_giving_up_what_is_committed_changes_nothing() -> None:
    runner = started()
    commit(runner, 0, written(runner, 0))
    runner.write_markers()
    log = list(runner.log)
    assert runner.ask(AbortBatch(QUERY, "a", 0), BatchAnswer) == BatchAnswer(None, is_repeated=True)
    assert runner.ask(AbortBatch(QUERY, "before", 0), BatchAnswer) == BatchAnswer(None, is_repeated=True)
    assert runner.log == log


def test_a_batch_that_was_given_up_before_its_tasks_began_is_not_begun() -> None:
    runner = started()
    assert runner.ask(AbortBatch(QUERY, "a", 0, once=True), BatchAnswer) == BatchAnswer(None)
    assert runner.ask(OpenAttempt(QUERY, "a", 0, TIMEOUT_MS), AttemptAnswer).problem is Problem.INVALID_TXN_STATE


def test_a_run_that_gives_up_before_it_began_leaves_the_one_that_is_there_alone() -> None:
    runner = started()
    attempt = written(runner, 0)
    assert runner.ask(AbortBatch(QUERY, "b", 0), BatchAnswer) == BatchAnswer(None)
    assert runner.ask(OpenAttempt(QUERY, "b", 0, TIMEOUT_MS), AttemptAnswer).problem is Problem.PRODUCER_FENCED
    assert commit(runner, 0, attempt) == BatchAnswer(None)


def test_a_batch_without_rows_is_committed_too() -> None:
    runner = started()
    assert commit(runner, 7) == BatchAnswer(None)
    assert last_batch(runner) == 7
    assert runner.ask(OpenAttempt(QUERY, "a", 7, TIMEOUT_MS), AttemptAnswer).is_committed


def test_the_state_does_not_grow_with_batches() -> None:
    runner = started()
    for batch_id in range(200):
        commit(runner, batch_id, written(runner, batch_id), written(runner, batch_id))
        runner.write_markers()
    assert (len(runner.machine.state.stored), len(runner.machine.state.queries)) == (2, 1)
    assert {found.producer.id for found in runner.machine.state.stored.values()} == {1001, 1002}


def test_a_query_outlives_the_epochs_of_its_producers() -> None:
    runner = started()
    first = written(runner, 0)
    commit(runner, 0, first)
    runner.write_markers()
    worn = replace(runner.transaction(first.transactional_id), producer=Producer(first.producer.id, LAST_EPOCH - 3))
    runner.append(TransactionRecord(first.transactional_id, worn))
    producers = []
    for batch_id in range(1, 5):
        attempt = written(runner, batch_id)
        assert attempt.transactional_id == first.transactional_id
        assert commit(runner, batch_id, attempt) == BatchAnswer(None)
        runner.write_markers()
        producers.append(attempt.producer)
    assert [producer.epoch for producer in producers] == [LAST_EPOCH - 2, LAST_EPOCH, 0, 2]
    assert producers[2].id == producers[3].id != first.producer.id


def test_a_query_and_its_transactions_are_forgotten_like_transactional_ids() -> None:
    runner = started()
    commit(runner, 0, written(runner, 0))
    runner.write_markers()
    runner.advance(7 * DAY_MS - HOUR_MS)
    assert last_batch(runner) == 0
    runner.advance(3 * HOUR_MS)
    assert not runner.machine.state.stored and not runner.machine.state.queries and not runner.machine.state.attempts
    runner.die(compacted=True)
    assert runner.log == []


def test_what_is_written_once_is_forgotten_soon() -> None:
    runner = started()
    commit(runner, 0, written(runner, 0, once=True), once=True)
    runner.write_markers()
    runner.advance(ONCE_KEPT_MS - 1)
    assert last_batch(runner) == 0
    runner.advance(3 * HOUR_MS)
    assert not runner.machine.state.queries


def test_a_query_is_not_forgotten_while_it_writes() -> None:
    runner = started(TransactionLimits(id_expiration_ms=TIMEOUT_MS // 2, expiry_interval_ms=1000))
    commit(runner, 0)
    attempt = written(runner, 1)
    runner.advance(TIMEOUT_MS - 1)
    assert commit(runner, 1, attempt) == BatchAnswer(None)


def test_nobody_chooses_or_ends_an_attempt_alone() -> None:
    runner = started()
    attempt = written(runner, 0)
    taking_over = InitProducerId(attempt.transactional_id, TIMEOUT_MS)
    assert runner.ask(taking_over, ProducerAnswer).problem is Problem.INVALID_REQUEST
    alone = EndTransaction(attempt.transactional_id, attempt.producer, commit=True, transaction_version=2)
    assert runner.ask(alone, ProducerAnswer).problem is Problem.INVALID_TXN_STATE
    giving_up = EndTransaction(attempt.transactional_id, attempt.producer, commit=False, transaction_version=2)
    assert runner.ask(giving_up, ProducerAnswer).problem is None
    assert commit(runner, 0, attempt).problem is Problem.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("query", "run", "batch_id"), [("", "a", 0), ("q" * 513, "a", 0), ("q", "", 0), ("q", "a", -1)]
)
def test_names_and_numbers_have_bounds(query: str, run: str, batch_id: int) -> None:
    runner = started()
    assert runner.ask(OpenAttempt(query, run, batch_id, TIMEOUT_MS), AttemptAnswer).problem is Problem.INVALID_REQUEST
    assert runner.ask(CommitBatch(query, run, batch_id, ()), BatchAnswer).problem is Problem.INVALID_REQUEST
    assert runner.log == []


def test_what_would_take_too_much_is_refused() -> None:
    runner = started(TransactionLimits(max_ids=1, max_queries=1, max_commit_bytes=5))
    attempt = written(runner, 0)
    assert runner.ask(OpenAttempt(QUERY, "a", 0, TIMEOUT_MS), AttemptAnswer).problem is Problem.POLICY_VIOLATION
    assert runner.ask(CommitBatch("other", "a", 0, ()), BatchAnswer).problem is Problem.POLICY_VIOLATION
    refused = runner.ask(OpenAttempt(QUERY, "a", 0, 2**40), AttemptAnswer)
    assert refused.problem is Problem.INVALID_TRANSACTION_TIMEOUT
    assert "transaction.max.timeout.ms" in refused.text
    assert commit(runner, 0, attempt).problem is Problem.POLICY_VIOLATION
