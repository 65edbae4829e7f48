"""JoinGroup: who gets in, under which id, and what a rebalance it causes."""

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
    subscription,
    sync,
)
from tests.groups.runner import Runner, answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import DescribeGroupsAnswer, JoinAnswer, SyncAnswer
from penstock.groups.core.events import DescribeGroups, JoinGroup, SyncGroup
from penstock.groups.core.limits import GroupLimits


def state_of(runner: Runner, group_id: str = "group") -> str:
    return runner.ask(DescribeGroups((group_id,)), DescribeGroupsAnswer).groups[0].state


def test_a_first_member_leads_and_gets_its_own_metadata() -> None:
    runner = running()
    joined = join(runner, joining())
    assert joined.problem is None
    assert joined.generation == 1
    assert joined.leader == joined.member_id
    assert joined.protocol_name == "range"
    assert joined.protocol_type == "consumer"
    assert [row.metadata for row in joined.members] == [subscription("orders")]
    assert joined.member_id.startswith("client-")


def test_a_dynamic_member_is_asked_to_come_back_with_the_id_it_is_given() -> None:
    runner = running()
    told = join(runner, joining(known_id=True))
    assert told.problem is Problem.MEMBER_ID_REQUIRED
    joined = join(runner, joining(told.member_id, known_id=True))
    assert joined.problem is None
    assert joined.member_id == told.member_id


def test_an_id_handed_out_expires_with_the_session_timeout() -> None:
    runner = running()
    told = join(runner, joining(known_id=True))
    runner.advance(SESSION_MS)
    assert join(runner, joining(told.member_id, known_id=True)).problem is Problem.UNKNOWN_MEMBER
    assert not list(runner.machine.state.group_ids()), "nothing may stay of a group that never was"


def test_an_id_handed_out_that_comes_with_an_instance_id_is_not_accepted() -> None:
    runner = running()
    told = join(runner, joining(known_id=True))
    assert join(runner, joining(told.member_id, instance_id="i")).problem is Problem.UNKNOWN_MEMBER


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (joining(group_id=""), Problem.INVALID_GROUP_ID),
        (joining(group_id="g" * 1025), Problem.INVALID_GROUP_ID),
        (joining(session_timeout_ms=5_999), Problem.INVALID_SESSION_TIMEOUT),
        (joining(session_timeout_ms=1_800_001), Problem.INVALID_SESSION_TIMEOUT),
        (joining(protocols=()), Problem.INCONSISTENT_GROUP_PROTOCOL),
        (joining(protocol_type=""), Problem.INCONSISTENT_GROUP_PROTOCOL),
        (joining("never-heard-of"), Problem.UNKNOWN_MEMBER),
    ],
)
def test_a_bad_request_is_refused_and_leaves_nothing(event: JoinGroup, problem: Problem) -> None:
    runner = running()
    assert join(runner, event).problem is problem
    assert not runner.log
    assert not list(runner.machine.state.group_ids())


def test_protocols_have_to_overlap_with_everybodys() -> None:
    runner = running()
    stable_group(runner, 2)
    assert join(runner, joining(protocols=(("sticky", b""),))).problem is Problem.INCONSISTENT_GROUP_PROTOCOL
    assert join(runner, joining(protocol_type="connect")).problem is Problem.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_is_the_one_that_all_know_and_most_prefer() -> None:
    runner = running()
    both = (("range", b"r"), ("sticky", b"s"))
    first = join(runner, joining(protocols=both))
    sync(runner, first)
    second = runner.submit(joining(protocols=(("sticky", b"s2"), ("range", b"r2"), ("other", b""))))
    third = runner.submit(joining(protocols=(("sticky", b"s3"), ("range", b"r3"))))
    again = join(runner, joining(first.member_id, protocols=both))
    assert again.protocol_name == "sticky"
    assert {row.metadata for row in again.members} == {b"s", b"s2", b"s3"}
    assert answer_of(second, JoinAnswer).protocol_name == "sticky"
    assert answer_of(third, JoinAnswer).members == ()


def test_a_join_waits_for_the_others_to_rejoin() -> None:
    runner = running()
    (first,) = stable_group(runner, 1)
    second = runner.submit(joining())
    assert not second.done
    assert state_of(runner) == "PreparingRebalance"
    assert beat(runner, first) is Problem.REBALANCE_IN_PROGRESS
    again = join(runner, joining(first.member_id))
    assert again.generation == first.generation + 1
    assert again.leader == first.member_id
    assert answer_of(second, JoinAnswer).generation == again.generation
    assert state_of(runner) == "CompletingRebalance"


def test_members_that_do_not_rejoin_in_time_are_left_behind_and_the_lead_moves() -> None:
    runner = running()
    (first,) = stable_group(runner, 1)
    second = runner.submit(joining(rebalance_timeout_ms=20_000))
    for _ in range(7):
        runner.advance(SESSION_MS - 1000)
        assert beat(runner, first) in (Problem.REBALANCE_IN_PROGRESS, Problem.UNKNOWN_MEMBER)
    joined = answer_of(second, JoinAnswer)
    assert joined.leader == joined.member_id
    assert [row.member_id for row in joined.members] == [joined.member_id]
    assert beat(runner, first) is Problem.UNKNOWN_MEMBER


def test_a_new_member_that_vanishes_while_it_waits_is_given_up_after_five_minutes() -> None:
    runner = running()
    (first,) = stable_group(runner, 1)
    runner.submit(joining(known_id=True))  # an id is out, so the rebalance below waits for its owner too
    waiting = runner.submit(joining(rebalance_timeout_ms=1_000_000))
    for _ in range(31):
        runner.advance(9_999)
        beat(runner, first)
    assert answer_of(waiting, JoinAnswer).problem is Problem.UNKNOWN_MEMBER


def test_a_second_join_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    lost = runner.submit(joining(second.member_id, protocols=(("range", b"new"),)))
    retry = runner.submit(joining(second.member_id, protocols=(("range", b"newer"),)))
    assert answer_of(lost, JoinAnswer).problem is Problem.REBALANCE_IN_PROGRESS
    again = join(runner, joining(first.member_id))
    assert answer_of(retry, JoinAnswer).generation == again.generation
    assert {row.metadata for row in again.members} == {subscription("orders"), b"newer"}


def test_a_follower_that_lost_the_answer_gets_it_again_without_a_rebalance() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    again = join(runner, joining(second.member_id))
    assert again.generation == second.generation
    assert again.members == ()
    assert sync(runner, again).assignment == b"part-1"
    assert beat(runner, first) is None


def test_members_that_lost_the_answer_get_it_again_before_the_assignment_is_there() -> None:
    runner = running()
    first = join(runner, joining())
    again = join(runner, joining(first.member_id))
    assert again.generation == first.generation
    assert again.members == first.members


def test_new_metadata_while_the_assignment_is_awaited_starts_over() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    pending = [runner.submit(joining(one.member_id, protocols=(("range", b"x"),))) for one in (second, first)]
    second, first = (answer_of(one, JoinAnswer) for one in pending)
    waiting = runner.submit(SyncGroup("group", second.member_id, second.generation))
    assert not waiting.done
    rejoin = runner.submit(joining(first.member_id, protocols=(("range", b"y"),)))
    assert answer_of(waiting, SyncAnswer).problem is Problem.REBALANCE_IN_PROGRESS
    assert not rejoin.done
    assert join(runner, joining(second.member_id)).generation == first.generation + 1


def test_a_leader_that_rejoins_has_the_work_shared_out_anew() -> None:
    runner = running()
    first, second = stable_group(runner, 2)
    waiting = runner.submit(joining(first.member_id))
    assert not waiting.done
    assert beat(runner, second) is Problem.REBALANCE_IN_PROGRESS


def test_version_0_has_no_rebalance_timeout_and_the_session_timeout_serves() -> None:
    runner = running()
    first = join(runner, joining(rebalance_timeout_ms=-1))
    sync(runner, first)
    waiting = runner.submit(joining(rebalance_timeout_ms=-1))
    runner.advance(SESSION_MS - 1)
    assert not waiting.done
    runner.advance(1)
    assert answer_of(waiting, JoinAnswer).problem is None


def test_the_first_rebalance_waits_for_members_that_start_together() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=3000))
    first = runner.submit(joining())
    runner.advance(2999)
    assert not first.done
    second = runner.submit(joining())
    runner.advance(1)
    assert not first.done, "a member came in the first wave, so another wave is waited for"
    runner.advance(3000)
    assert answer_of(first, JoinAnswer).generation == answer_of(second, JoinAnswer).generation == 1
    assert {len(answer_of(one, JoinAnswer).members) for one in (first, second)} == {0, 2}


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=3000))
    first = runner.submit(joining(rebalance_timeout_ms=7000))
    others = []
    for _ in range(7):
        runner.advance(999)
        others.append(runner.submit(joining(rebalance_timeout_ms=7000)))
    assert not first.done
    runner.advance(7)
    assert first.done


def test_the_first_rebalance_does_not_wait_for_ids_that_are_out() -> None:
    runner = running()
    join(runner, joining(known_id=True))
    assert join(runner, joining()).problem is None


def test_a_full_group_takes_nobody_but_its_members() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=0, max_size=2))
    first, second = stable_group(runner, 2)
    assert join(runner, joining()).problem is Problem.GROUP_FULL
    assert beat(runner, first) is None
    assert join(runner, joining(second.member_id)).problem is None


def test_a_full_group_still_takes_back_a_static_member_that_restarts() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=0, max_size=1))
    first = join(runner, joining(instance_id="i"))
    sync(runner, first)
    assert join(runner, joining(instance_id="i")).problem is None


def test_a_lowered_limit_sends_away_the_last_to_rejoin() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=0, max_size=2))
    big = running()
    members = stable_group(big, 3)
    runner.log = big.log
    runner.restart()
    assert state_of(runner) == "PreparingRebalance", "over the limit: the members get the chance to commit first"
    first, second = (runner.submit(joining(one.member_id)) for one in members[:2])
    assert join(runner, joining(members[2].member_id)).problem is Problem.GROUP_FULL
    assert answer_of(first, JoinAnswer).generation == answer_of(second, JoinAnswer).generation


def test_a_group_cannot_outgrow_its_record() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=0, max_group_bytes=10_000))
    first = join(runner, joining(protocols=(("range", b"x" * 6000),)))
    assert first.problem is None
    assert join(runner, joining(protocols=(("range", b"x" * 6000),))).problem is Problem.GROUP_FULL
    huge = SyncGroup("group", first.member_id, 1, assignments=((first.member_id, b"y" * 6000),))
    assert runner.ask(huge, SyncAnswer).problem is Problem.RECORDS_TOO_LARGE


def test_what_is_around_empty_protocols_counts_as_well() -> None:
    limits = GroupLimits(initial_rebalance_delay_ms=0, max_group_bytes=10_000)
    runner = running(limits)
    assert join(runner, joining(protocols=(("", b""),) * 10_000)).problem is Problem.GROUP_FULL
    assert join(runner, joining(protocols=(("", b""),) * 100)).problem is None
    assert max(len(value or b"") for _, value in runner.log) <= limits.max_group_bytes


def test_ids_handed_out_are_not_without_end() -> None:
    runner = running()
    problems = {join(runner, joining(known_id=True)).problem for _ in range(10_000)}
    assert problems == {Problem.MEMBER_ID_REQUIRED}
    assert join(runner, joining(known_id=True)).problem is Problem.GROUP_FULL


def test_several_groups_do_not_disturb_each_other() -> None:
    runner = running()
    (a,) = stable_group(runner, 1, "a")
    (b,) = stable_group(runner, 1, "b")
    runner.submit(joining(group_id="a"))
    assert beat(runner, a, "a") is Problem.REBALANCE_IN_PROGRESS
    assert beat(runner, b, "b") is None


def test_everybody_gets_what_the_leader_assigned() -> None:
    runner = running()
    members = stable_group(runner, 3)
    assert len({one.generation for one in members}) == 1
    again = share_out(runner, members)
    assert sorted(one.assignment for one in again) == [b"part-0", b"part-1", b"part-2"]
    runner.advance(REBALANCE_MS // 10)
    assert state_of(runner) == "Stable"
