"""Offsets in transactions that are over, or about to be: what comes late, comes again, or overtakes another."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.groups.runner import Runner
from tests.groups.transactions import (
    CONNECTION,
    PRODUCER,
    commit,
    end,
    ending,
    fetched,
    is_unstable,
    numbered,
    send,
    sending,
)

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.groups.core.transaction_events import TransactionGuard

OTHER = PRODUCER + 1


def test_nothing_is_taken_that_nobody_verified() -> None:
    runner = numbered()
    assert runner.ask(sending(), CommitAnswer).problem is Problem.COORDINATOR_LOADING
    assert send(runner, sending()) is None
    assert runner.machine.transaction_guard(PRODUCER, 0) is None, "it is under way: nobody has to be asked"
    assert runner.ask(sending(partition=1), CommitAnswer).problem is None
    assert runner.ask(sending(epoch=1), CommitAnswer).problem is Problem.COORDINATOR_LOADING


@pytest.mark.parametrize("sent_before", [False, True])
def test_what_was_verified_before_the_end_is_void_after_it(sent_before: bool) -> None:
    runner = numbered()
    guard = runner.machine.transaction_guard(PRODUCER, 0)
    if sent_before:
        send(runner, sending(partition=1))
    end(runner, ending())
    assert runner.ask(replace(sending(), guard=guard), CommitAnswer).problem is Problem.COORDINATOR_LOADING
    assert not is_unstable(runner)
    assert send(runner, sending()) is None, "version 1: the next transaction has the same epoch"


def test_the_ends_of_others_void_nothing() -> None:
    runner = numbered()
    guard = runner.machine.transaction_guard(PRODUCER, 0)
    end(runner, ending(producer_id=OTHER))
    assert runner.ask(replace(sending(), guard=guard), CommitAnswer).problem is None


def test_the_ends_of_very_many_others_do_because_this_one_may_be_forgotten() -> None:
    runner = numbered()
    guard = runner.machine.transaction_guard(PRODUCER, 0)
    end(runner, ending())
    for number in range(3000):
        end(runner, ending(producer_id=1000 + number))
    assert runner.ask(replace(sending(), guard=guard), CommitAnswer).problem is Problem.COORDINATOR_LOADING
    assert send(runner, sending()) is None


def test_what_was_verified_for_another_machine_is_void() -> None:
    runner = numbered()
    guard = runner.machine.transaction_guard(PRODUCER, 0)
    runner.restart()
    assert isinstance(guard, TransactionGuard)
    assert runner.ask(replace(sending(), guard=guard), CommitAnswer).problem is Problem.COORDINATOR_LOADING


def test_an_epoch_that_is_over_is_refused() -> None:
    runner = numbered()
    send(runner, sending(epoch=3))
    assert send(runner, sending(epoch=2)) is Problem.INVALID_PRODUCER_EPOCH
    end(runner, ending(epoch=4, bumps_epoch=True))
    assert send(runner, sending(epoch=3)) is Problem.INVALID_PRODUCER_EPOCH
    assert send(runner, sending(epoch=4)) is None


def test_what_is_left_of_an_earlier_epoch_goes_when_a_later_one_sends() -> None:
    runner = numbered()
    send(runner, sending(1, epoch=3, partition=1))
    assert send(runner, sending(2, epoch=5, partition=2)) is None
    assert not is_unstable(runner, 1)
    end(runner, ending(epoch=5))
    assert (fetched(runner, 1).offset, fetched(runner, 2).offset) == (-1, 2)


def test_what_comes_late_on_a_connection_that_its_producer_has_left_is_not_of_this_transaction() -> None:
    runner = numbered()
    old, new = CONNECTION, CONNECTION + 1
    send(runner, sending(40, connection=old))
    assert end(runner, ending()) is None
    # The next one sent 60 on the old connection, and that did not arrive; aborted, and began again from 40.
    assert send(runner, sending(50, connection=new)) is None
    for event in (sending(60, connection=old), sending(60, partition=1, connection=old)):
        assert send(runner, event) is Problem.COMMIT_OVERTAKEN, "it would skip what is between"
    assert end(runner, ending()) is None
    assert send(runner, sending(60, connection=old)) is Problem.COMMIT_OVERTAKEN
    assert send(runner, sending(45, connection=new)) is None, "on purpose"


def test_after_a_restart_so_does_what_comes_on_an_older_one_while_something_is_pending() -> None:
    began = iter((3, 20))
    runner = Runner(lambda: GroupsMachine(GroupLimits(), ConsumerLimits(), next(began)))
    assert send(runner, sending(50, connection=12)) is None
    runner.restart()
    assert send(runner, sending(60, connection=19)) is Problem.COMMIT_OVERTAKEN
    assert send(runner, sending(60, connection=21)) is None
    assert send(runner, sending(60, partition=1, producer_id=OTHER, connection=19)) is None, "nothing of it is there"


def test_nobody_takes_a_group_back_on_an_old_connection() -> None:
    runner = numbered()
    send(runner, sending(60, connection=CONNECTION))
    end(runner, ending())
    late = sending(50, producer_id=OTHER, connection=CONNECTION - 1)
    assert send(runner, late) is Problem.COMMIT_OVERTAKEN
    assert send(runner, sending(70, producer_id=OTHER, connection=CONNECTION - 1)) is None


def test_nothing_is_remembered_of_a_groups_connections_when_all_was_aborted() -> None:
    runner = numbered()
    assert send(runner, sending(60)) is None
    assert end(runner, ending(committed=False)) is None
    assert runner.machine.state.volatile.committed_on == {}


def test_very_many_producers_are_not_all_remembered() -> None:
    runner = numbered()
    assert send(runner, sending(60)) is None
    end(runner, ending(committed=False))
    for number in range(3000):
        send(runner, sending(producer_id=1000 + number))
        end(runner, ending(producer_id=1000 + number, committed=False))
    assert send(runner, sending(60, connection=1)) is None


# Ends


def test_a_marker_that_comes_again_does_nothing() -> None:
    runner = numbered()
    send(runner, sending())
    for _ in range(3):
        assert end(runner, ending()) is None
    written = len(runner.log)
    commit(runner, 50)
    assert end(runner, ending(committed=False)) is None
    assert len(runner.log) == written + 1
    assert fetched(runner).offset == 50


@pytest.mark.parametrize("restarts", [False, True])
def test_under_version_2_a_marker_that_comes_again_does_not_end_the_next_transaction(restarts: bool) -> None:
    runner = numbered()
    send(runner, sending(10, epoch=0))
    first = ending(epoch=1, bumps_epoch=True)
    assert end(runner, first) is None
    send(runner, sending(20, epoch=1))
    if restarts:
        runner.restart()
    assert end(runner, first) is None
    assert is_unstable(runner)
    assert end(runner, ending(epoch=2, committed=False, bumps_epoch=True)) is None
    assert fetched(runner, stable=True).offset == 10


def test_a_repeated_marker_of_version_2_voids_no_guard() -> None:
    runner = numbered()
    first = ending(epoch=1, bumps_epoch=True)
    end(runner, first)
    guard = runner.machine.transaction_guard(PRODUCER, 1)
    end(runner, first)
    assert runner.ask(replace(sending(epoch=1), guard=guard), CommitAnswer).problem is None


def test_markers_of_an_older_epoch_and_of_a_zombie_coordinator_are_refused() -> None:
    runner = numbered()
    send(runner, sending(epoch=5))
    assert end(runner, ending(epoch=4)) is Problem.INVALID_PRODUCER_EPOCH
    assert end(runner, ending(epoch=5, coordinator_epoch=8)) is None
    assert end(runner, ending(epoch=4, coordinator_epoch=9)) is Problem.INVALID_PRODUCER_EPOCH
    send(runner, sending(epoch=5))
    assert end(runner, ending(epoch=5, coordinator_epoch=7)) is Problem.TRANSACTION_COORDINATOR_FENCED
    assert is_unstable(runner)
    assert end(runner, ending(epoch=6, coordinator_epoch=8, committed=False)) is None
    assert not is_unstable(runner)


def test_a_commit_outside_takes_the_place_of_what_a_transaction_sent_before() -> None:
    runner = numbered()
    send(runner, sending(10))
    send(runner, sending(11, partition=1))
    commit(runner, 50)
    assert not is_unstable(runner), "however the transaction ends, this one counts"
    assert end(runner, ending()) is None
    assert (fetched(runner).offset, fetched(runner, 1).offset) == (50, 11)


@pytest.mark.parametrize("compacted", [False, True])
def test_of_two_transactions_the_commit_that_was_sent_last_counts(compacted: bool) -> None:
    runner = numbered()
    send(runner, sending(1, producer_id=OTHER))
    send(runner, sending(10))
    send(runner, sending(20, producer_id=OTHER))
    runner.restart(compacted=compacted)
    assert end(runner, ending(producer_id=OTHER)) is None
    assert end(runner, ending()) is None
    assert fetched(runner, stable=True).offset == 20
    send(runner, sending(30))
    send(runner, sending(40, producer_id=OTHER))
    assert end(runner, ending()) is None
    assert (fetched(runner).offset, is_unstable(runner)) == (30, True)
    assert end(runner, ending(producer_id=OTHER)) is None
    assert fetched(runner).offset == 40
