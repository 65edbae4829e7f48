"""Telling a repeated batch from a missing one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, Problem
from penstock.storage.core.producer_state import MOST_PRODUCERS, MOST_REFUSED, ProducerStates
from penstock.wire.batch import MAX_SEQUENCE, BatchHeader


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, 0, count - 1, 0, 0, producer_id, epoch, sequence, count)


def appended(states: ProducerStates, batch: BatchHeader, base_offset: int, now_ms: int = 0) -> None:
    assert states.check(batch) is None
    states.record(batch, base_offset, 0, now_ms)


def refused(states: ProducerStates, batch: BatchHeader) -> Problem:
    with pytest.raises(PenstockError) as refusal:
        states.check(batch)
    return refusal.value.problem


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(MAX_SEQUENCE - 20, MAX_SEQUENCE))
def test_the_last_five_batches_are_recognised_also_across_the_wrap(counts: list[int], first: int) -> None:
    states = ProducerStates()
    sent = []
    sequence, offset = first, 0
    for count in counts:
        batch = header(sequence, count)
        appended(states, batch, offset)
        sent.append((batch, offset, count))
        sequence, offset = (sequence + count) % 2**31, offset + count
    for batch, base_offset, count in sent[-5:]:
        duplicate = states.check(batch)
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.next_offset) == (base_offset, base_offset + count)
    for batch, _, _ in sent[:-5]:
        assert refused(states, batch) is Problem.OUT_OF_ORDER_SEQUENCE
    assert states.check(header(sequence)) is None
    assert refused(states, header((sequence + 1) % 2**31)) is Problem.OUT_OF_ORDER_SEQUENCE


def test_a_batch_with_the_same_start_but_another_length_is_no_duplicate() -> None:
    states = ProducerStates()
    appended(states, header(0, 3), 0)
    assert refused(states, header(0, 2)) is Problem.OUT_OF_ORDER_SEQUENCE


def test_a_producer_without_state_may_start_anywhere() -> None:
    states = ProducerStates()
    appended(states, header(17), 0)
    assert refused(states, header(17, 2)) is Problem.OUT_OF_ORDER_SEQUENCE


def test_a_new_epoch_starts_at_zero_and_ends_the_old_one() -> None:
    states = ProducerStates()
    appended(states, header(0, 5), 0)
    assert refused(states, header(5, epoch=1)) is Problem.OUT_OF_ORDER_SEQUENCE
    appended(states, header(0, epoch=1), 5)
    assert refused(states, header(5, epoch=0)) is Problem.INVALID_PRODUCER_EPOCH
    assert refused(states, header(0, 5, epoch=0)) is Problem.INVALID_PRODUCER_EPOCH


def test_checking_changes_nothing() -> None:
    states = ProducerStates()
    assert states.check(header(3)) is None
    assert states.entries() == []


def test_producers_expire_when_they_were_not_heard_of() -> None:
    states = ProducerStates()
    appended(states, header(0, producer_id=1), 0, now_ms=1000)
    appended(states, header(0, producer_id=2), 1, now_ms=2000)
    assert states.expire(now_ms=3000, older_than_ms=1999) == 1
    assert [entry.producer_id for entry in states.entries()] == [2]
    appended(states, header(55, producer_id=1), 2)


def test_their_number_is_bounded_and_the_longest_unused_go_first() -> None:
    states = ProducerStates()
    for number in range(MOST_PRODUCERS + 1):
        states.record(header(0, producer_id=number), number, 0, number)
    assert len(states) <= MOST_PRODUCERS
    known = {entry.producer_id for entry in states.entries()}
    assert MOST_PRODUCERS in known
    assert 0 not in known
    assert MOST_PRODUCERS // 2 in known


def test_a_new_producer_whose_first_batch_was_refused_must_begin_with_it() -> None:
    states = ProducerStates()
    states.refuse(header(0, 3), now_ms=0)
    for sequence in (3, 4, 2**29):
        assert refused(states, header(sequence)) is Problem.OUT_OF_ORDER_SEQUENCE
    assert states.entries() == []
    appended(states, header(0, producer_id=2), 0)
    appended(states, header(0, 3), 1)
    appended(states, header(3), 4)


def test_it_begins_with_the_lowest_that_was_refused_also_across_the_wrap() -> None:
    states = ProducerStates()
    for sequence in (5, MAX_SEQUENCE - 1, 1):
        states.refuse(header(sequence, 2), now_ms=0)
    for sequence in (MAX_SEQUENCE, 1, 5):
        assert refused(states, header(sequence)) is Problem.OUT_OF_ORDER_SEQUENCE
    appended(states, header(MAX_SEQUENCE - 1, 2), 0)
    appended(states, header(0), 2)


def test_a_refused_producer_that_gave_up_begins_a_new_epoch_anywhere() -> None:
    states = ProducerStates()
    states.refuse(header(0, 3), now_ms=0)
    assert states.check(header(7, epoch=1)) is None
    states.refuse(header(0, 3, epoch=1), now_ms=0)
    assert refused(states, header(7, epoch=1)) is Problem.OUT_OF_ORDER_SEQUENCE


def test_a_known_producer_cannot_leave_out_what_was_refused() -> None:
    states = ProducerStates()
    appended(states, header(0, 3), 0)
    states.refuse(header(3, 2), now_ms=0)
    assert refused(states, header(5)) is Problem.OUT_OF_ORDER_SEQUENCE
    states.refuse(header(0, epoch=1), now_ms=0)
    assert refused(states, header(1, epoch=1)) is Problem.OUT_OF_ORDER_SEQUENCE
    appended(states, header(3, 2), 3)
    appended(states, header(5), 5)


def test_what_was_refused_is_forgotten_with_time_and_bounded() -> None:
    states = ProducerStates()
    states.refuse(header(0, producer_id=1), now_ms=1000)
    states.refuse(header(0, producer_id=2), now_ms=2000)
    states.expire(now_ms=3000, older_than_ms=1999)
    assert states.check(header(9, producer_id=1)) is None
    assert refused(states, header(9, producer_id=2)) is Problem.OUT_OF_ORDER_SEQUENCE
    for number in range(MOST_REFUSED):
        states.refuse(header(0, producer_id=100 + number), now_ms=3000)
    assert states.check(header(9, producer_id=2)) is None
    assert refused(states, header(9, producer_id=100)) is Problem.OUT_OF_ORDER_SEQUENCE
