"""SyncGroup, heartbeats and the deadlines of a classic group."""

import pytest
from tests.groups.members import (
    REBALANCE_MS,
    SESSION_MS,
    beat,
    join,
    joining,
    running,
    share_out,
    stable_group,
    sync,
)
from tests.groups.runner import answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import HeartbeatAnswer, JoinAnswer, LeaveAnswer, SyncAnswer
from penstock.groups.core.events import LeaveGroup, LeavingMember, MemberHeartbeat, SyncGroup


def test_followers_wait_for_the_leaders_assignment() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    pending = [runner.submit(joining(one.member_id, protocols=(("range", b"x"),))) for one in (second, first)]
    second, first = (answer_of(one, JoinAnswer) for one in pending)
    waiting = runner.submit(SyncGroup("group", second.member_id, second.generation))
    assert not waiting.done
    rows = ((second.member_id, b"mine"), ("made-up", b"nobody's"))
    led = runner.ask(SyncGroup("group", first.member_id, first.generation, assignments=rows), SyncAnswer)
    assert led == SyncAnswer(None, "consumer", "range", b""), "whom the leader left out gets nothing"
    assert answer_of(waiting, SyncAnswer).assignment == b"mine"


def test_a_second_sync_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    pending = [runner.submit(joining(one.member_id, protocols=(("range", b"x"),))) for one in (second, first)]
    second, first = (answer_of(one, JoinAnswer) for one in pending)
    lost = runner.submit(SyncGroup("group", second.member_id, second.generation))
    retry = runner.submit(SyncGroup("group", second.member_id, second.generation))
    assert answer_of(lost, SyncAnswer).problem is Problem.REBALANCE_IN_PROGRESS
    sync(runner, first)
    assert answer_of(retry, SyncAnswer).problem is None


def test_sync_is_checked() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    cases = {
        SyncGroup("nowhere", one.member_id, 1): Problem.UNKNOWN_MEMBER,
        SyncGroup("", one.member_id, 1): Problem.INVALID_GROUP_ID,
        SyncGroup("group", "stranger", 1): Problem.UNKNOWN_MEMBER,
        SyncGroup("group", one.member_id, 2): Problem.ILLEGAL_GENERATION,
        SyncGroup("group", one.member_id, 0): Problem.ILLEGAL_GENERATION,
        SyncGroup("group", one.member_id, 1, protocol_type="connect"): Problem.INCONSISTENT_GROUP_PROTOCOL,
        SyncGroup("group", one.member_id, 1, protocol_name="sticky"): Problem.INCONSISTENT_GROUP_PROTOCOL,
        SyncGroup("group", one.member_id, 1, None, "consumer", "range"): None,
    }
    assert {event: runner.ask(event, SyncAnswer).problem for event in cases} == cases
    runner.submit(joining())
    assert sync(runner, one).problem is Problem.REBALANCE_IN_PROGRESS


def test_heartbeats_are_checked_and_write_nothing() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    written = len(runner.log)
    cases = {
        MemberHeartbeat("nowhere", one.member_id, 1): Problem.UNKNOWN_MEMBER,
        MemberHeartbeat("", one.member_id, 1): Problem.INVALID_GROUP_ID,
        MemberHeartbeat("group", "stranger", 1): Problem.UNKNOWN_MEMBER,
        MemberHeartbeat("group", one.member_id, 7): Problem.ILLEGAL_GENERATION,
        MemberHeartbeat("group", one.member_id, 1): None,
    }
    assert {event: runner.ask(event, HeartbeatAnswer).problem for event in cases} == cases
    assert len(runner.log) == written


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    runner.advance(SESSION_MS - 1)
    assert beat(runner, first) is None
    runner.advance(1)
    assert beat(runner, second) is Problem.UNKNOWN_MEMBER
    again = join(runner, joining(first.member_id))
    assert [row.member_id for row in again.members] == [first.member_id]


def test_heartbeats_keep_a_session_for_ever() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    for _ in range(100):
        runner.advance(SESSION_MS - 1)
        assert beat(runner, one) is None


def test_a_member_whose_join_is_parked_needs_no_heartbeat() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    waiting = runner.submit(joining(second.member_id, protocols=(("range", b"x"),)))
    for _ in range(3):
        runner.advance(SESSION_MS - 1)
        assert beat(runner, first) is Problem.REBALANCE_IN_PROGRESS
    again = join(runner, joining(first.member_id))
    assert answer_of(waiting, JoinAnswer).generation == again.generation
    assert len(again.members) == 2


def test_two_sessions_that_end_together_do_not_take_a_waiting_member_with_them() -> None:
    """The first expiry completes the rebalance and answers the waiting member: its own, due too, is then void."""
    runner = running()
    first, second = stable_group(runner, 2)
    waiting = runner.submit(joining(first.member_id))
    runner.advance(SESSION_MS)
    joined = answer_of(waiting, JoinAnswer)
    assert joined.problem is None
    assert beat(runner, joined) is None
    assert beat(runner, second) is Problem.UNKNOWN_MEMBER


def test_members_that_never_sync_are_removed() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    pending = [runner.submit(joining(one.member_id, protocols=(("range", b"x"),))) for one in (second, first)]
    second, first = (answer_of(one, JoinAnswer) for one in pending)
    sync(runner, first)
    for _ in range(REBALANCE_MS // 5000):
        assert beat(runner, second) is None
        assert beat(runner, first) is None
        runner.advance(5000)
    assert beat(runner, second) is Problem.UNKNOWN_MEMBER
    assert beat(runner, first) is Problem.REBALANCE_IN_PROGRESS


def test_a_leader_that_dies_before_it_assigns_does_not_hold_the_others() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    pending = [runner.submit(joining(one.member_id, protocols=(("range", b"x"),))) for one in (second, first)]
    second, first = (answer_of(one, JoinAnswer) for one in pending)
    waiting = runner.submit(SyncGroup("group", second.member_id, second.generation))
    runner.advance(SESSION_MS)
    assert answer_of(waiting, SyncAnswer).problem is Problem.REBALANCE_IN_PROGRESS
    again = join(runner, joining(second.member_id))
    assert again.leader == second.member_id
    assert again.generation == second.generation + 1


def test_leaving_hands_the_work_to_the_others_at_once() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    answer = runner.ask(LeaveGroup("group", (LeavingMember(second.member_id),)), LeaveAnswer)
    assert [row.problem for row in answer.members] == [None]
    assert beat(runner, first) is Problem.REBALANCE_IN_PROGRESS


def test_the_last_to_leave_leaves_an_empty_group_of_a_new_generation() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), LeaveAnswer)
    back = join(runner, joining())
    assert back.generation == one.generation + 2


def test_leaving_is_checked_per_member() -> None:
    runner = running()
    one, two = stable_group(runner, 2)
    told = join(runner, joining(known_id=True))
    leaving = (LeavingMember("stranger"), LeavingMember(told.member_id), LeavingMember(two.member_id, "no-instance"))
    answer = runner.ask(LeaveGroup("group", leaving), LeaveAnswer)
    assert [row.problem for row in answer.members] == [Problem.UNKNOWN_MEMBER, None, Problem.UNKNOWN_MEMBER]
    assert [beat(runner, one), beat(runner, two)] == [None, None], "an unused id that is given back moves nobody"
    nowhere = runner.ask(LeaveGroup("nowhere", leaving[:1]), LeaveAnswer)
    assert [row.problem for row in nowhere.members] == [Problem.UNKNOWN_MEMBER]
    assert runner.ask(LeaveGroup("", leaving), LeaveAnswer).problem is Problem.INVALID_GROUP_ID


def test_who_leaves_gets_an_answer_to_what_it_had_parked() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    waiting = runner.submit(joining(second.member_id, protocols=(("range", b"x"),)))
    runner.ask(LeaveGroup("group", (LeavingMember(second.member_id),)), LeaveAnswer)
    assert answer_of(waiting, JoinAnswer).problem is Problem.UNKNOWN_MEMBER
    assert join(runner, joining(first.member_id)).generation == first.generation + 1


@pytest.mark.parametrize("by_leaving", [True, False])
def test_a_rebalance_does_not_wait_for_an_id_that_nobody_comes_back_with(by_leaving: bool) -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    told = join(runner, joining(known_id=True))
    waiting = runner.submit(joining(one.member_id))
    assert not waiting.done
    if by_leaving:
        runner.ask(LeaveGroup("group", (LeavingMember(told.member_id),)), LeaveAnswer)
    else:
        runner.advance(SESSION_MS)
    assert answer_of(waiting, JoinAnswer).problem is None


def test_cooperative_members_hand_over_in_two_ordinary_rebalances() -> None:
    """The coordinator reads no assignments: the old owner gives up, then rejoins, and the other gets it."""
    runner = running()
    (first,) = stable_group(runner, 1)
    pending = runner.submit(joining(protocols=(("range", b"owns nothing"),)))
    first = join(runner, joining(first.member_id, protocols=(("range", b"owns 0,1"),)))
    second = answer_of(pending, JoinAnswer)
    share_out(runner, [first, second])
    pending = runner.submit(joining(first.member_id, protocols=(("range", b"owns 0"),)))
    assert beat(runner, second) is Problem.REBALANCE_IN_PROGRESS
    second = join(runner, joining(second.member_id, protocols=(("range", b"owns nothing"),)))
    first = answer_of(pending, JoinAnswer)
    assert {row.metadata for row in first.members} == {b"owns 0", b"owns nothing"}
    assert [answer.assignment for answer in share_out(runner, [first, second])] == [b"part-1", b"part-0"]
