"""DescribeGroups, ListGroups, DeleteGroups."""

from tests.groups.members import join, joining, running, stable_group, subscription
from tests.groups.runner import Runner

from penstock.errors import Problem
from penstock.groups.core.answers import (
    CommitAnswer,
    DeleteGroupsAnswer,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsAnswer,
    FetchAnswer,
    GroupDeletion,
    ListedGroup,
    ListGroupsAnswer,
)
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteGroups,
    DescribeGroups,
    FetchOffsets,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    TopicOffsets,
)
from penstock.groups.core.limits import GroupLimits


def described(runner: Runner, group_id: str = "group") -> DescribedGroup:
    return runner.ask(DescribeGroups((group_id,)), DescribeGroupsAnswer).groups[0]


def listed(runner: Runner, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
    return {row.group_id for row in runner.ask(ListGroups(states, types), ListGroupsAnswer).groups}


def commit(runner: Runner, group_id: str) -> None:
    runner.ask(CommitOffsets(group_id, (TopicOffsets("orders", (OffsetToCommit(0, 1),)),)), CommitAnswer)


def test_a_stable_group_is_described_with_its_members() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    member = DescribedMember(one.member_id, None, "client", "/127.0.0.1", subscription("orders"), b"part-0")
    assert described(runner) == DescribedGroup("group", None, "Stable", "consumer", "range", (member,))


def test_what_is_not_settled_is_not_shown() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=1000))
    runner.submit(joining())
    waiting = described(runner)
    assert waiting.state == "PreparingRebalance"
    assert waiting.protocol_name == ""
    assert [(row.metadata, row.assignment) for row in waiting.members] == [(b"", b"")]


def test_a_group_that_does_not_exist_is_dead() -> None:
    assert described(running(), "nowhere") == DescribedGroup("nowhere", Problem.UNKNOWN_GROUP, "Dead")


def test_groups_are_listed_once_whatever_they_are() -> None:
    runner = running()
    stable_group(runner, 1, "stable")
    commit(runner, "simple")
    join(runner, joining(group_id="hardly", known_id=True))
    join(runner, joining(group_id="completing"))
    answer = runner.ask(ListGroups(), ListGroupsAnswer)
    assert sorted(answer.groups, key=lambda row: row.group_id) == [
        ListedGroup("completing", "consumer", "CompletingRebalance", "Classic"),
        ListedGroup("hardly", "", "Empty", "Classic"),
        ListedGroup("simple", "", "Empty", "Classic"),
        ListedGroup("stable", "consumer", "Stable", "Classic"),
    ]


def test_lists_are_filtered_by_state_and_type() -> None:
    runner = running()
    stable_group(runner, 1, "stable")
    commit(runner, "simple")
    assert listed(runner, states=("STABLE",)) == {"stable"}
    assert listed(runner, states=("empty", "stable")) == {"stable", "simple"}
    assert listed(runner, states=("no such state",)) == set()
    assert listed(runner, types=("classic",)) == {"stable", "simple"}
    assert listed(runner, types=("consumer",)) == set()
    assert listed(runner, types=("Classic",), states=("Empty",)) == {"simple"}


def test_only_empty_groups_are_deleted_and_their_offsets_with_them() -> None:
    runner = running()
    stable_group(runner, 1, "stable")
    (gone,) = stable_group(runner, 1, "left")
    runner.ask(LeaveGroup("left", (LeavingMember(gone.member_id),)), object)
    commit(runner, "left")
    commit(runner, "simple")
    answer = runner.ask(DeleteGroups(("stable", "left", "simple", "nowhere", "left")), DeleteGroupsAnswer)
    assert answer.groups == (
        GroupDeletion("stable", Problem.GROUP_NOT_EMPTY),
        GroupDeletion("left", None),
        GroupDeletion("simple", None),
        GroupDeletion("nowhere", Problem.UNKNOWN_GROUP),
    )
    assert listed(runner) == {"stable"}
    runner.restart()
    assert listed(runner) == {"stable"}
    assert runner.ask(FetchOffsets("left", None), FetchAnswer).topics == ()


def test_a_group_with_many_offsets_is_deleted_in_parts() -> None:
    runner = running()
    rows = tuple(OffsetToCommit(partition, 42) for partition in range(12_000))
    runner.ask(CommitOffsets("group", (TopicOffsets("orders", rows),)), CommitAnswer)
    runner.largest_decision = 0
    for left in (7000, 2000, 0):
        assert runner.ask(DeleteGroups(("group",)), DeleteGroupsAnswer).groups[0].problem is None
        assert runner.machine.count_offsets("group") == left
    assert listed(runner) == set()
    assert runner.largest_decision == 5000, "a batch with all would be too large for a follower, with long names"


def test_ids_handed_out_go_with_a_deleted_group() -> None:
    runner = running()
    told = join(runner, joining(known_id=True))
    assert runner.ask(DeleteGroups(("group",)), DeleteGroupsAnswer).groups[0].problem is None
    assert listed(runner) == set()
    assert join(runner, joining(told.member_id)).problem is Problem.UNKNOWN_MEMBER


def test_a_group_under_way_is_not_deleted() -> None:
    runner = running(GroupLimits(initial_rebalance_delay_ms=1000))
    runner.submit(joining())
    assert runner.ask(DeleteGroups(("group",)), DeleteGroupsAnswer).groups[0].problem is Problem.GROUP_NOT_EMPTY
