"""Transactional ids that nobody uses are forgotten, and no others."""

from __future__ import annotations

from tests.transactions.asking import ID, TIMEOUT_MS, add, end, initialise, producer_of, started

from penstock.errors import Problem
from penstock.transactions.core.answers import ProducerAnswer
from penstock.transactions.core.events import InitProducerId
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.transaction import TransactionState
from penstock.units import DAY_MS, HOUR_MS

WEEK_MS = 7 * DAY_MS


def test_an_id_goes_a_week_after_its_last_use() -> None:
    runner = started()
    producer = producer_of(runner)
    runner.advance(DAY_MS)
    add(runner, producer, 0)
    end(runner, producer, commit=True, version=1)
    runner.write_markers()
    runner.advance(WEEK_MS - HOUR_MS)
    assert runner.machine.state.find(ID) is not None
    runner.advance(2 * HOUR_MS)
    assert runner.machine.state.find(ID) is None
    assert add(runner, producer, 0) is Problem.INVALID_PRODUCER_ID_MAPPING
    again = initialise(runner, had=producer)
    assert again.problem is None
    assert again.producer.id != producer.id
    runner.die(compacted=True)
    assert runner.transaction().producer == again.producer


def test_what_waits_for_its_markers_stays_for_as_long_as_it_takes() -> None:
    runner = started()
    producer = producer_of(runner)
    add(runner, producer, 0)
    end(runner, producer, commit=True, version=2)
    runner.advance(2 * WEEK_MS)
    assert runner.transaction().state is TransactionState.PREPARE_COMMIT


def test_many_ids_go_step_by_step() -> None:
    runner = started(TransactionLimits(id_expiration_ms=HOUR_MS, expiry_interval_ms=HOUR_MS))
    for number in range(2500):
        runner.submit(InitProducerId(f"id-{number}", TIMEOUT_MS))
    runner.commit()
    before = len(runner.log)
    due_ms = runner.machine.next_deadline_ms()
    assert due_ms is not None
    runner.now_ms = max(due_ms, runner.now_ms + HOUR_MS)
    runner.run_due()
    assert not runner.machine.state.stored
    assert len(runner.log) == before + 2500


def test_a_round_after_a_restart_begins_anew_and_ends() -> None:
    runner = started()
    assert runner.ask(InitProducerId("old", TIMEOUT_MS), ProducerAnswer).problem is None
    runner.advance(WEEK_MS // 2)
    producer_of(runner)
    runner.advance(WEEK_MS // 2 - HOUR_MS)
    runner.die()
    runner.advance(3 * HOUR_MS)
    assert list(runner.machine.state.stored) == [ID]
    due_ms = runner.machine.next_deadline_ms()
    assert due_ms is not None
    assert due_ms > runner.now_ms
