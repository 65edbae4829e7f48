"""A new coordinator goes on where the old one was: from the log alone, and without a rebalance where it can."""

import pytest
from tests.groups.members import REBALANCE_MS, SESSION_MS, beat, join, joining, running, stable_group, sync
from tests.groups.runner import Runner, answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import DescribeGroupsAnswer, JoinAnswer, LeaveAnswer, SyncAnswer
from penstock.groups.core.events import DescribeGroups, LeaveGroup, LeavingMember, SyncGroup


def state_of(runner: Runner) -> str:
    return runner.ask(DescribeGroups(("group",)), DescribeGroupsAnswer).groups[0].state


@pytest.mark.parametrize("compacted", [False, True])
def test_a_stable_group_stays_stable(compacted: bool) -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    runner.restart(compacted=compacted)
    assert state_of(runner) == "Stable"
    assert [beat(runner, first), beat(runner, second)] == [None, None]
    assert sync(runner, second).assignment == b"part-1"
    assert join(runner, joining(second.member_id)).generation == second.generation, "all its protocols are known still"


def test_sessions_start_afresh_when_the_log_has_been_read() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    runner.advance(SESSION_MS - 1)
    runner.restart()
    runner.advance(SESSION_MS - 1)
    assert beat(runner, first) is None
    runner.advance(1)
    assert beat(runner, second) is Problem.UNKNOWN_MEMBER


def test_a_generation_that_members_were_told_of_is_never_given_to_others() -> None:
    runner = running()
    joined = join(runner, joining())
    runner.restart()
    assert state_of(runner) == "CompletingRebalance"
    assert sync(runner, joined, b"all").assignment == b"all"
    other = running()
    told = join(other, joining())
    other.restart()
    other.advance(SESSION_MS)
    assert join(other, joining()).generation > told.generation


def test_a_group_that_was_waiting_for_its_assignment_does_not_wait_for_ever() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    pending = [runner.submit(joining(one.member_id, protocols=(("range", b"x"),))) for one in (second, first)]
    second = answer_of(pending[0], JoinAnswer)
    runner.restart()
    waiting = runner.submit(SyncGroup("group", second.member_id, second.generation))
    runner.advance(SESSION_MS)
    assert answer_of(waiting, SyncAnswer).problem is Problem.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed_by_the_next_coordinator_too() -> None:
    runner = running()
    joined = join(runner, joining())
    runner.restart()
    for _ in range(REBALANCE_MS // 5000):
        assert beat(runner, joined) is None
        runner.advance(5000)
    assert beat(runner, joined) is Problem.UNKNOWN_MEMBER


def test_a_rebalance_under_way_is_forgotten_and_asked_for_again() -> None:
    runner = running()
    (first,) = stable_group(runner, 1)
    told = join(runner, joining(known_id=True))
    runner.submit(joining(told.member_id))
    runner.restart()
    assert state_of(runner) == "Stable"
    assert beat(runner, first) is None
    assert join(runner, joining(told.member_id)).problem is Problem.UNKNOWN_MEMBER


def test_a_fenced_static_member_stays_fenced() -> None:
    runner = running()
    first = join(runner, joining(instance_id="a"))
    sync(runner, first, b"all")
    back = join(runner, joining(instance_id="a"))
    runner.restart(compacted=True)
    assert join(runner, joining(first.member_id, instance_id="a")).problem is Problem.FENCED_INSTANCE_ID
    assert sync(runner, back).assignment == b"all"


def test_an_empty_group_keeps_its_generation() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), LeaveAnswer)
    runner.restart(compacted=True)
    assert state_of(runner) == "Empty"
    assert join(runner, joining()).generation == one.generation + 2
