"""Static members: the instance keeps its place and its partitions through restarts, and only one holder has it."""

import time

from tests.groups.members import REBALANCE_MS, SESSION_MS, beat, join, joining, running, share_out, sync
from tests.groups.runner import Runner, answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import (
    CommitAnswer,
    DescribeGroupsAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from penstock.groups.core.events import (
    CommitOffsets,
    DescribeGroups,
    LeaveGroup,
    LeavingMember,
    MemberHeartbeat,
    SyncGroup,
)
from penstock.groups.core.records import ClassicGroupValue, GroupMetadata, StoredMember, encode


def static_pair(
    runner: Runner, *, a_session_ms: int = SESSION_MS, b_session_ms: int = SESSION_MS
) -> tuple[JoinAnswer, JoinAnswer]:
    """Instances "a", the leader, and "b", each with its assignment."""
    first = join(runner, joining(instance_id="a", session_timeout_ms=a_session_ms))
    waiting = runner.submit(joining(instance_id="b", session_timeout_ms=b_session_ms))
    first = join(runner, joining(first.member_id, instance_id="a", session_timeout_ms=a_session_ms))
    second = answer_of(waiting, JoinAnswer)
    share_out(runner, [first, second])
    return first, second


def test_a_restarted_member_takes_its_place_without_a_rebalance() -> None:
    runner = running()
    first, second = static_pair(runner)
    back = join(runner, joining(instance_id="b"))
    assert back.problem is None
    assert back.member_id != second.member_id
    assert back.generation == second.generation
    assert beat(runner, first) is None
    assert sync(runner, back).assignment == b"part-1"


def test_a_static_member_needs_no_second_request_for_its_id() -> None:
    runner = running()
    assert join(runner, joining(instance_id="a", known_id=True)).problem is None


def test_whoever_uses_the_old_id_is_fenced() -> None:
    runner = running()
    _, second = static_pair(runner)
    join(runner, joining(instance_id="b"))
    old = (second.member_id, second.generation, "b")
    beating = runner.ask(MemberHeartbeat("group", *old), HeartbeatAnswer)
    syncing = runner.ask(SyncGroup("group", *old), SyncAnswer)
    leaving = runner.ask(LeaveGroup("group", (LeavingMember(second.member_id, "b"),)), LeaveAnswer)
    commit = CommitOffsets("group", (), second.member_id, second.generation, "b")
    problems = [
        beating.problem,
        syncing.problem,
        leaving.members[0].problem,
        join(runner, joining(second.member_id, instance_id="b")).problem,
        runner.ask(commit, CommitAnswer).problem,
    ]
    assert problems == [Problem.FENCED_INSTANCE_ID] * 5


def test_a_parked_request_of_the_old_holder_is_fenced() -> None:
    runner = running()
    first, _ = static_pair(runner)
    waiting = runner.submit(joining(first.member_id, instance_id="a"))
    assert not waiting.done
    runner.submit(joining(instance_id="a"))
    assert answer_of(waiting, JoinAnswer).problem is Problem.FENCED_INSTANCE_ID


def test_an_unknown_instance_is_not_a_member() -> None:
    runner = running()
    first, _ = static_pair(runner)
    event = MemberHeartbeat("group", first.member_id, first.generation, "zzz")
    assert runner.ask(event, HeartbeatAnswer).problem is Problem.UNKNOWN_MEMBER


def test_a_restarted_leader_still_leads_but_need_not_assign() -> None:
    runner = running()
    static_pair(runner)
    back = join(runner, joining(instance_id="a"))
    assert back.leader == back.member_id
    assert back.skip_assignment
    assert len(back.members) == 2
    assert sync(runner, back).assignment == b"part-0"


def test_a_restarted_leader_that_cannot_be_told_so_is_shown_another_leader() -> None:
    runner = running()
    first, _ = static_pair(runner)
    back = join(runner, joining(instance_id="a", can_skip=False))
    assert back.leader == first.member_id != back.member_id
    assert not back.skip_assignment
    assert back.members == ()
    assert sync(runner, back).assignment == b"part-0"


def test_a_restart_with_another_protocol_rebalances() -> None:
    runner = running()
    first, _ = static_pair(runner)
    both = (("sticky", b""), ("range", b""))
    for member in ("a", "b"):
        runner.submit(joining(instance_id=member, protocols=both))
    described = runner.ask(DescribeGroups(("group",)), DescribeGroupsAnswer).groups[0]
    assert described.state == "PreparingRebalance", "now both prefer another protocol than the assignment was made by"
    assert beat(runner, first) is Problem.UNKNOWN_MEMBER


def test_a_member_that_restarts_before_it_synced_still_has_to() -> None:
    runner = running()
    first = join(runner, joining(instance_id="a"))
    waiting = runner.submit(joining(instance_id="b"))
    first = join(runner, joining(first.member_id, instance_id="a"))
    assert waiting.done
    sync(runner, first)
    back = join(runner, joining(instance_id="b"))
    for _ in range(REBALANCE_MS // 5000):
        assert [beat(runner, first), beat(runner, back)] == [None, None]
        runner.advance(5000)
    assert beat(runner, back) is Problem.UNKNOWN_MEMBER


def test_a_restart_before_the_assignment_is_there_starts_over() -> None:
    runner = running()
    first = join(runner, joining(instance_id="a"))
    waiting = runner.submit(joining(instance_id="b"))
    first = join(runner, joining(first.member_id, instance_id="a"))
    second = answer_of(waiting, JoinAnswer)
    back = runner.submit(joining(instance_id="b"))
    assert not back.done, "the leader is computing an assignment for an id that is gone"
    late = SyncGroup("group", first.member_id, first.generation, "a", assignments=((second.member_id, b"x"),))
    assert runner.ask(late, SyncAnswer).problem is Problem.REBALANCE_IN_PROGRESS
    again = join(runner, joining(first.member_id, instance_id="a"))
    assert answer_of(back, JoinAnswer).generation == again.generation == first.generation + 1


def test_an_absent_static_member_keeps_its_place_through_a_rebalance_until_its_session_ends() -> None:
    runner = running()
    first, _ = static_pair(runner, b_session_ms=300_000)
    waiting = runner.submit(joining(first.member_id, instance_id="a"))
    runner.advance(REBALANCE_MS)
    again = answer_of(waiting, JoinAnswer)
    assert {row.group_instance_id for row in again.members} == {"a", "b"}
    assert again.generation == first.generation + 1


def test_an_absent_static_leader_does_not_lead_the_next_generation() -> None:
    runner = running()
    _, second = static_pair(runner, a_session_ms=300_000)
    waiting = runner.submit(joining(second.member_id, instance_id="b", protocols=(("range", b"new"),)))
    runner.advance(REBALANCE_MS)
    again = answer_of(waiting, JoinAnswer)
    assert again.leader == again.member_id == second.member_id
    assert {row.group_instance_id for row in again.members} == {"a", "b"}


def test_a_static_member_is_removed_when_its_session_ends() -> None:
    runner = running()
    first, _ = static_pair(runner)
    for _ in range(3):
        runner.advance(SESSION_MS // 2)
        beat(runner, first)
    again = join(runner, joining(first.member_id, instance_id="a"))
    assert [row.group_instance_id for row in again.members] == ["a"]


def test_an_operator_removes_an_instance_by_name() -> None:
    runner = running()
    first, second = static_pair(runner)
    event = LeaveGroup("group", (LeavingMember("", "b"), LeavingMember("", "nobody"), LeavingMember("", None)))
    answer = runner.ask(event, LeaveAnswer)
    assert [row.problem for row in answer.members] == [None, Problem.UNKNOWN_MEMBER, Problem.UNKNOWN_MEMBER]
    assert beat(runner, first) is Problem.REBALANCE_IN_PROGRESS
    assert beat(runner, second) is Problem.UNKNOWN_MEMBER


def test_nobody_left_to_lead_does_not_spin() -> None:
    """Only absent static members, and a rebalance timeout of nothing: the deadline must still lie ahead."""
    runner = running()
    first = join(runner, joining(instance_id="a", rebalance_timeout_ms=0, session_timeout_ms=60_000))
    sync(runner, first)
    waiting = runner.submit(joining(rebalance_timeout_ms=1))
    runner.advance(1)
    newcomer = answer_of(waiting, JoinAnswer)
    runner.ask(LeaveGroup("group", (LeavingMember(newcomer.member_id),)), LeaveAnswer)
    runner.advance(120_000)
    described = runner.ask(DescribeGroups(("group",)), DescribeGroupsAnswer).groups[0]
    assert described.state == "Empty"


def test_leaving_takes_a_moment_in_a_large_group_too() -> None:
    """Everybody waits meanwhile."""
    members = tuple(
        StoredMember(f"member-{number}", f"instance-{number}", "client", "/127.0.0.1", SESSION_MS, SESSION_MS, ())
        for number in range(3000)
    )
    value = ClassicGroupValue(1, "consumer", "range", "member-0", True, 0, members)
    runner = running()
    runner.log = [encode(GroupMetadata("group", value))]
    runner.restart()
    rows = tuple(LeavingMember("", f"instance-{number}") for number in range(2000, 50_000))
    started_s = time.process_time()
    answer = runner.ask(LeaveGroup("group", rows), LeaveAnswer)
    assert time.process_time() - started_s < 3
    assert sum(row.problem is None for row in answer.members) == 1000
