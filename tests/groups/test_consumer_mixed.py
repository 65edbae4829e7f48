"""Classic and KIP-848 members in one group, on the way up and on the way back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.groups.consumer_classic_client import SESSION_MS, ClassicClient
from tests.groups.consumer_world import GROUP, World
from tests.groups.members import joining, subscription
from tests.groups.runner import answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, HeartbeatAnswer, JoinAnswer, LeaveAnswer, SyncAnswer
from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_limits import ConsumerLimits, MigrationPolicy
from penstock.groups.core.events import (
    CommitOffsets,
    LeaveGroup,
    LeavingMember,
    MemberHeartbeat,
    OffsetToCommit,
    SyncGroup,
    TopicOffsets,
)
from penstock.groups.core.limits import GroupLimits


def mixed_world(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, partitions: int = 4) -> World:
    limits = GroupLimits(initial_rebalance_delay_ms=0)
    return World({"orders": partitions}, ConsumerLimits(migration_policy=policy), limits)


def settle(*clients: ClassicClient, steps: int = 12) -> None:
    for _ in range(steps):
        for client in clients:
            client.step()
    assert all(client.is_in for client in clients)


def classic_pair(world: World, *, cooperative: bool = True) -> tuple[ClassicClient, ClassicClient]:
    first = ClassicClient(world, "one", ("orders",), cooperative=cooperative)
    second = ClassicClient(world, "two", ("orders",), cooperative=cooperative)
    settle(first)
    settle(first, second)
    assert len(first.owned) == len(second.owned) == 2
    return first, second


def is_classic(world: World) -> bool:
    return isinstance(world.runner.machine.state.find(GROUP), ClassicGroup)


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_rolling_upgrade_there_and_back(cooperative: bool) -> None:
    world = mixed_world()
    first, second = classic_pair(world, cooperative=cooperative)
    joined = world.join("new")
    assert (joined.problem, world.names(joined.assignment)) == (None, {})
    assert not is_classic(world)
    settle(first, second)
    told = world.beat("new", joined.member_epoch)
    assert len((world.names(told.assignment) or {})["orders"]) == 1
    assert len(first.owned | second.owned) == 3
    assert world.described().state == "Stable"
    assert [member.is_classic for member in world.described().members] == [False, True, True]

    first.leave()
    settle(second)
    told = world.beat("new", joined.member_epoch)
    second.leave()
    epoch = told.member_epoch
    for _ in range(3):
        epoch = world.beat("new", epoch, {"orders": {0, 1, 2, 3}}).member_epoch
    assert world.described().members[0].assignment[0].partitions == (0, 1, 2, 3)

    again = ClassicClient(world, "one", ("orders",), cooperative=cooperative)
    for _ in range(3):
        again.step()
    assert not is_classic(world)
    world.beat("new", -1)
    assert is_classic(world)
    settle(again)
    assert len(again.owned) == 4


def test_classic_members_keep_their_partitions_until_they_have_given_them_up() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    held = first.owned | second.owned
    epoch = world.join("new").member_epoch
    for _ in range(3):
        assert not world.beat("new", epoch).assignment
    assert world.group().members[first.member_id].current.assigned
    assert first.owned | second.owned == held
    for client in (first, second):
        assert world.group().members[client.member_id].epoch == client.generation


def test_upgraded_members_hear_of_it_by_being_told_to_rejoin() -> None:
    world = mixed_world()
    first, _ = classic_pair(world)
    world.join("new")
    beat = MemberHeartbeat(GROUP, first.member_id, first.generation)
    assert world.runner.ask(beat, HeartbeatAnswer).problem is Problem.REBALANCE_IN_PROGRESS
    assert world.runner.ask(replace(beat, generation=9), HeartbeatAnswer).problem is Problem.ILLEGAL_GENERATION
    assert world.runner.ask(replace(beat, member_id="new"), HeartbeatAnswer).problem is Problem.UNKNOWN_MEMBER
    assert world.runner.ask(replace(beat, member_id="x"), HeartbeatAnswer).problem is Problem.UNKNOWN_MEMBER


def test_an_upgrade_during_a_classic_rebalance_answers_those_who_wait() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    third = ClassicClient(world, "three", ("orders",), cooperative=True)
    third.step()
    third.step()
    first.step()
    first.step()
    assert world.runner.parked
    world.join("new")
    assert not world.runner.parked
    assert not is_classic(world)
    settle(first, second, third)
    assert third.problems[0] is Problem.REBALANCE_IN_PROGRESS


def test_an_upgrade_while_the_assignment_is_awaited_lets_nobody_in_early() -> None:
    """Cooperative members still have what they had; the leader's word has not come, so theirs counts."""
    world = mixed_world()
    first, second = classic_pair(world)
    third = ClassicClient(world, "three", ("orders",), cooperative=True)
    third.step()
    third.step()
    leader, other = (first, second)
    for client in (leader, other, leader, other):
        client.step()
    group = world.runner.machine.state.find(GROUP)
    assert group is not None
    assert group.state_name == "CompletingRebalance"
    joined = world.join("new")
    assert world.names(joined.assignment) == {}
    owned = {id_: member.current.assigned for id_, member in world.group().members.items() if id_ != "new"}
    assert sum(len(indexes) for found in owned.values() for indexes in found.values()) == 4


def test_an_upgrade_counts_what_a_cooperative_member_has_yet_to_give_up() -> None:
    """The assignment is there, but one member has not asked for it yet and still reads all that it had."""
    world = mixed_world()
    first = ClassicClient(world, "one", ("orders",), cooperative=True)
    second = ClassicClient(world, "two", ("orders",), cooperative=True)
    settle(first)
    for _ in range(2):
        second.step()
    first.step()
    first.step()
    assert len(first.owned) == 4
    group = world.runner.machine.state.find(GROUP)
    assert isinstance(group, ClassicGroup)
    assert group.leader == first.member_id
    sync = SyncGroup(GROUP, first.member_id, group.generation, assignments=first.assignments())
    assert world.runner.ask(sync, SyncAnswer).problem is None
    world.restart()
    assert world.names(world.join("new").assignment) == {}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_the_operator_can_forbid_the_upgrade(policy: MigrationPolicy) -> None:
    world = mixed_world(policy)
    classic_pair(world)
    assert world.join("new").problem is Problem.UNKNOWN_GROUP
    assert is_classic(world)


def test_only_consumers_can_be_upgraded() -> None:
    world = mixed_world()
    world.runner.submit(joining(group_id=GROUP, protocol_type="connect", protocols=[("sessioned", b"?")]))
    assert world.join("new").problem is Problem.UNKNOWN_GROUP
    world = mixed_world()
    joined = answer_of(world.runner.submit(joining(group_id=GROUP, protocols=[("range", b"?")])), JoinAnswer)
    sync = SyncGroup(GROUP, joined.member_id, joined.generation, assignments=((joined.member_id, b"?"),))
    assert world.runner.ask(sync, SyncAnswer).problem is None
    assert world.join("new").problem is Problem.UNKNOWN_GROUP
    assert is_classic(world)


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_where_the_way_back_is_forbidden_classic_members_go_on_as_they_are(policy: MigrationPolicy) -> None:
    world = mixed_world(policy)
    epoch = world.join("new").member_epoch
    client = ClassicClient(world, "one", ("orders",), cooperative=True)
    settle(client)
    world.beat("new", epoch)
    world.beat("new", -1)
    assert not is_classic(world)
    settle(client)
    assert len(client.owned) == 4


@pytest.mark.parametrize("last", ["leaves", "is silent"])
def test_members_that_are_too_large_for_one_record_go_on_as_they_are(last: str) -> None:
    limits = GroupLimits(initial_rebalance_delay_ms=0, max_group_bytes=10_000)
    world = World({"orders": 4}, limits=limits)
    world.join("new")
    large = (("range", subscription("orders") + bytes(3_000)),)
    for _ in range(4):
        event = joining(group_id=GROUP, protocols=large, session_timeout_ms=600_000, rebalance_timeout_ms=600_000)
        assert answer_of(world.runner.submit(event), JoinAnswer).problem is None
    if last == "leaves":
        world.beat("new", -1)
    else:
        world.runner.advance(100_000)
    assert set(world.group().members) and "new" not in world.group().members
    assert max(len(value or b"") for _, value in world.runner.log) <= limits.max_group_bytes


def test_the_last_new_member_may_also_just_fall_silent() -> None:
    world = mixed_world()
    world.join("new")
    client = ClassicClient(world, "one", ("orders",), cooperative=True)
    settle(client)
    for _ in range(10):
        world.runner.advance(5_000)
        client.step()
    assert is_classic(world)
    settle(client)
    assert len(client.owned) == 4


def test_a_classic_member_that_falls_silent_is_removed_after_its_own_session_timeout() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    epoch = world.join("new").member_epoch
    settle(first, second)
    for _ in range(SESSION_MS // 5_000):
        world.runner.advance(5_000)
        second.step()
        epoch = world.beat("new", epoch).member_epoch
    assert first.member_id not in world.group().members
    assert second.member_id in world.group().members


def test_a_classic_member_that_does_not_do_as_told_is_removed() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    epoch = world.join("new").member_epoch
    settle(second)
    beat = MemberHeartbeat(GROUP, first.member_id, first.generation)
    for _ in range(12):
        assert world.runner.ask(beat, HeartbeatAnswer).problem is Problem.REBALANCE_IN_PROGRESS
        world.runner.advance(5_000)
        second.step()
        epoch = world.beat("new", epoch).member_epoch
    assert world.runner.ask(beat, HeartbeatAnswer).problem is Problem.UNKNOWN_MEMBER


def test_a_classic_member_that_joins_but_never_syncs_is_removed() -> None:
    world = mixed_world()
    epoch = world.join("new").member_epoch
    joined = answer_of(world.runner.submit(joining(group_id=GROUP, session_timeout_ms=300_000)), JoinAnswer)
    for _ in range(12):
        world.runner.advance(5_000)
        epoch = world.beat("new", epoch, {"orders": {0, 1}}).member_epoch
    assert joined.member_id not in world.group().members


def test_members_of_both_kinds_are_restored_after_a_restart() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    epoch = world.join("new").member_epoch
    settle(first, second)
    epoch = world.beat("new", epoch).member_epoch
    before = world.described()
    world.restart(compacted=True)
    assert world.described() == before
    settle(first, second, steps=1)
    assert world.beat("new", epoch).member_epoch == epoch


def test_joining_needs_a_known_id_a_shared_assignor_and_room() -> None:
    world = mixed_world()
    world.join("new")
    asked = answer_of(world.runner.submit(joining(group_id=GROUP, known_id=True)), JoinAnswer)
    assert asked.problem is Problem.MEMBER_ID_REQUIRED
    joined = answer_of(world.runner.submit(joining(asked.member_id, group_id=GROUP, known_id=True)), JoinAnswer)
    assert (joined.problem, joined.member_id, joined.leader) == (None, asked.member_id, "")
    other = joining(group_id=GROUP, protocols=[("sticky", joining().protocols[0][1])])
    assert answer_of(world.runner.submit(other), JoinAnswer).problem is Problem.INCONSISTENT_GROUP_PROTOCOL
    for wrong in (
        joining(group_id=GROUP, protocol_type="connect"),
        joining(group_id=GROUP, protocols=[("range", b"?")]),
        joining(group_id=GROUP, protocols=[]),
    ):
        assert answer_of(world.runner.submit(wrong), JoinAnswer).problem is Problem.INCONSISTENT_GROUP_PROTOCOL
    hasty = joining(group_id=GROUP, session_timeout_ms=1)
    assert answer_of(world.runner.submit(hasty), JoinAnswer).problem is Problem.INVALID_SESSION_TIMEOUT
    world = World({"orders": 1}, ConsumerLimits(max_size=1))
    world.join("new")
    assert answer_of(world.runner.submit(joining(group_id=GROUP)), JoinAnswer).problem is Problem.GROUP_FULL


def test_syncing_is_checked() -> None:
    world = mixed_world()
    world.join("new")
    joined = answer_of(world.runner.submit(joining(group_id=GROUP)), JoinAnswer)
    sync = SyncGroup(GROUP, joined.member_id, joined.generation, None, "consumer", "range")
    assert world.runner.ask(sync, SyncAnswer).problem is None
    assert world.runner.ask(replace(sync, generation=7), SyncAnswer).problem is Problem.ILLEGAL_GENERATION
    inconsistent = Problem.INCONSISTENT_GROUP_PROTOCOL
    assert world.runner.ask(replace(sync, protocol_name="sticky"), SyncAnswer).problem is inconsistent
    assert world.runner.ask(replace(sync, protocol_type="connect"), SyncAnswer).problem is inconsistent
    assert world.runner.ask(replace(sync, member_id="new"), SyncAnswer).problem is Problem.UNKNOWN_MEMBER
    world.join("newer")
    assert world.runner.ask(sync, SyncAnswer).problem is Problem.REBALANCE_IN_PROGRESS


def test_a_fenced_member_that_still_reads_is_sent_away_first() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    world.join("new")
    answer = world.runner.ask(LeaveGroup(GROUP, (LeavingMember(first.member_id),)), LeaveAnswer)
    assert [row.problem for row in answer.members] == [None]
    first.rejoin()
    first.step()
    assert first.problems[-1] is Problem.UNKNOWN_MEMBER
    assert not first.owned
    settle(first, second)


def test_leaving_is_answered_row_by_row() -> None:
    world = mixed_world()
    world.join("new")
    static = ClassicClient(world, "one", ("orders",), cooperative=True, instance_id="i")
    settle(static)
    rows = (LeavingMember("new"), LeavingMember("nobody"), LeavingMember("other", "i"), LeavingMember("", "i"))
    answer = world.runner.ask(LeaveGroup(GROUP, rows), LeaveAnswer)
    assert [row.problem for row in answer.members] == [
        Problem.UNKNOWN_MEMBER,
        Problem.UNKNOWN_MEMBER,
        Problem.FENCED_INSTANCE_ID,
        None,
    ]
    assert world.group().members.keys() == {"new"}


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    world = mixed_world()
    static = ClassicClient(world, "one", ("orders",), cooperative=True, instance_id="i")
    other = ClassicClient(world, "two", ("orders",), cooperative=True)
    settle(static)
    settle(static, other)
    had = static.owned
    upgraded = world.join("new", instance_id="i")
    assert {index for _, index in had} == (world.names(upgraded.assignment) or {})["orders"]
    static.step()
    assert static.problems[-1] is Problem.FENCED_INSTANCE_ID
    settle(other)

    world.beat("new", -2, instance_id="i")
    back = ClassicClient(world, "one", ("orders",), cooperative=True, instance_id="i")
    settle(back, other)
    assert is_classic(world)
    assert len(back.owned) == len(other.owned) == 2


def test_a_lone_static_member_goes_back_to_the_classic_protocol() -> None:
    world = mixed_world()
    world.join("new", instance_id="i")
    back = ClassicClient(world, "one", ("orders",), cooperative=True, instance_id="i")
    settle(back)
    assert is_classic(world)
    assert len(back.owned) == 4


def test_a_classic_member_that_is_refused_takes_no_static_members_place() -> None:
    world = mixed_world()
    epoch = world.join("new", instance_id="i").member_epoch
    event = joining(group_id=GROUP, instance_id="i", protocols=())
    assert answer_of(world.runner.submit(event), JoinAnswer).problem is Problem.INCONSISTENT_GROUP_PROTOCOL
    assert world.beat("new", epoch, {"orders": {0, 1, 2, 3}}, instance_id="i").problem is None


def test_commits_of_classic_members_carry_their_generation() -> None:
    world = mixed_world()
    first, second = classic_pair(world)
    world.join("new")
    settle(first, second)
    commit = CommitOffsets(
        GROUP,
        (TopicOffsets("orders", (OffsetToCommit(0, 5),)),),
        member_id=first.member_id,
        generation=first.generation,
        knows_member_epochs=False,
    )
    assert world.runner.ask(commit, CommitAnswer).problem is None
    assert world.runner.ask(replace(commit, generation=1), CommitAnswer).problem is Problem.ILLEGAL_GENERATION
