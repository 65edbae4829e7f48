"""Offsets nobody uses go after the retention time, and groups with their last offset."""

from tests.groups.members import beat, join, joining, running, stable_group, sync
from tests.groups.runner import Runner

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, FetchAnswer, ListGroupsAnswer
from penstock.groups.core.events import (
    CommitOffsets,
    FetchOffsets,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    TopicOffsets,
)
from penstock.groups.core.limits import GroupLimits
from penstock.units import DAY_MS, HOUR_MS, MINUTE_MS

LIMITS = GroupLimits(initial_rebalance_delay_ms=0)
CHECK_MS = LIMITS.offsets_retention_check_interval_ms


def commit(runner: Runner, topic: str = "orders", group_id: str = "group", **identity: object) -> None:
    rows = (TopicOffsets(topic, (OffsetToCommit(0, 42),)),)
    assert runner.ask(CommitOffsets(group_id, rows, **identity), CommitAnswer).problem is None  # type: ignore[arg-type]


def topics_left(runner: Runner, group_id: str = "group") -> set[str]:
    return {topic.topic for topic in runner.ask(FetchOffsets(group_id, None), FetchAnswer).topics}


def groups_left(runner: Runner) -> list[str]:
    return [row.group_id for row in runner.ask(ListGroups(), ListGroupsAnswer).groups]


def test_offsets_of_simple_consumers_live_fourteen_days_from_the_commit() -> None:
    runner = running(LIMITS)
    commit(runner)
    runner.advance(7 * DAY_MS)
    commit(runner, "other")
    runner.advance(7 * DAY_MS - 1)
    assert topics_left(runner) == {"orders", "other"}
    runner.advance(CHECK_MS)
    assert topics_left(runner) == {"other"}
    runner.advance(7 * DAY_MS)
    assert groups_left(runner) == []
    runner.restart()
    assert groups_left(runner) == []


def test_offsets_of_a_group_live_fourteen_days_from_when_its_last_member_left() -> None:
    runner = running(LIMITS)
    (one,) = stable_group(runner, 1)
    commit(runner, member_id=one.member_id, generation=one.generation)
    for _ in range(20 * 24 * 2):
        runner.advance(HOUR_MS // 2)
        if beat(runner, one) is not None:
            one = join(runner, joining())
            sync(runner, one)
    assert topics_left(runner) == {"orders"}, "members come and go, and the group is never empty for long"
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), object)
    runner.advance(14 * DAY_MS - 1)
    assert topics_left(runner) == {"orders"}
    runner.advance(CHECK_MS)
    assert groups_left(runner) == []


def test_the_time_counts_on_through_restarts() -> None:
    runner = running(LIMITS)
    (one,) = stable_group(runner, 1)
    commit(runner, member_id=one.member_id, generation=one.generation)
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), object)
    for _ in range(15):
        runner.advance(DAY_MS)
        runner.restart(compacted=True)
    runner.advance(CHECK_MS)
    assert groups_left(runner) == []


def test_an_offset_set_in_an_empty_group_counts_from_then() -> None:
    runner = running(LIMITS)
    (one,) = stable_group(runner, 1)
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), object)
    commit(runner)
    runner.advance(13 * DAY_MS)
    commit(runner)
    runner.advance(13 * DAY_MS)
    assert topics_left(runner) == {"orders"}


def keep_alive(runner: Runner, days: int) -> None:
    """One member with a long session, heard of all the time."""
    one = join(runner, joining(session_timeout_ms=30 * MINUTE_MS))
    sync(runner, one)
    commit(runner, "orders", member_id=one.member_id, generation=one.generation)
    commit(runner, "left-behind", member_id=one.member_id, generation=one.generation)
    for _ in range(days * 24 * 3):
        runner.advance(HOUR_MS // 3)
        assert beat(runner, one) is None


def test_a_living_group_loses_only_what_it_no_longer_subscribes_to() -> None:
    runner = running(LIMITS)
    keep_alive(runner, 15)
    assert topics_left(runner) == {"orders"}


def test_groups_of_other_protocol_types_lose_nothing_while_they_live() -> None:
    runner = running(LIMITS)
    worker = join(
        runner, joining(protocol_type="connect", protocols=(("default", b""),), session_timeout_ms=30 * MINUTE_MS)
    )
    sync(runner, worker)
    commit(runner, member_id=worker.member_id, generation=worker.generation)
    for _ in range(15 * 24 * 3):
        runner.advance(HOUR_MS // 3)
        assert beat(runner, worker) is None
    assert topics_left(runner) == {"orders"}


def test_an_old_client_chooses_its_own_retention() -> None:
    runner = running(LIMITS)
    commit(runner, retention_ms=HOUR_MS)
    commit(runner, "other", retention_ms=30 * DAY_MS)
    runner.advance(HOUR_MS + CHECK_MS)
    assert topics_left(runner) == {"other"}
    runner.advance(29 * DAY_MS)
    assert topics_left(runner) == {"other"}


def test_an_empty_group_without_offsets_goes_with_the_next_round() -> None:
    runner = running(LIMITS)
    (one,) = stable_group(runner, 1)
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), object)
    assert groups_left(runner) == ["group"]
    runner.advance(CHECK_MS)
    assert groups_left(runner) == []
    assert beat(runner, one) is Problem.UNKNOWN_MEMBER


def test_retention_and_interval_are_the_operators() -> None:
    limits = GroupLimits(offsets_retention_ms=5000, offsets_retention_check_interval_ms=100)
    runner = running(limits)
    commit(runner)
    runner.advance(4999)
    assert topics_left(runner) == {"orders"}
    runner.advance(101)
    assert topics_left(runner) == set()


def test_a_group_with_many_offsets_goes_in_parts() -> None:
    runner = running(GroupLimits(offsets_retention_ms=CHECK_MS))
    partitions = tuple(OffsetToCommit(number, 1) for number in range(12_000))
    for group_id in ("one", "two"):
        runner.ask(CommitOffsets(group_id, (TopicOffsets("orders", partitions),)), CommitAnswer)
    runner.largest_decision = 0
    runner.advance(2 * CHECK_MS)
    assert groups_left(runner) == []
    assert runner.largest_decision <= 10_000, "a batch with all would be too large for a follower, with long names"


def test_a_round_over_many_groups_is_cut_into_steps() -> None:
    runner = running(GroupLimits(offsets_retention_ms=CHECK_MS))
    partitions = tuple(OffsetToCommit(number, 1) for number in range(3000))
    for number in range(4):
        event = CommitOffsets(f"group-{number}", (TopicOffsets("orders", partitions),))
        runner.ask(event, CommitAnswer)
    runner.advance(2 * CHECK_MS)
    assert groups_left(runner) == []
    assert runner.largest_decision < 7000, "no single step may hold up the heartbeats of everybody"
