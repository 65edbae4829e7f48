"""Empty groups that change their protocol: offsets stay, and epochs and generations go on."""

from __future__ import annotations

import pytest
from tests.groups.consumer_classic_client import ClassicClient
from tests.groups.consumer_world import GROUP, World
from tests.groups.members import joining
from tests.groups.runner import answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, JoinAnswer
from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_limits import ConsumerLimits, MigrationPolicy
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.events import CommitOffsets, JoinGroup, OffsetToCommit, TopicOffsets
from penstock.groups.core.limits import GroupLimits
from penstock.units import DAY_MS


def patient_world() -> World:
    """In which groups with members keep their protocol."""
    limits = GroupLimits(initial_rebalance_delay_ms=0)
    return World({"orders": 4}, ConsumerLimits(migration_policy=MigrationPolicy.DISABLED), limits)


def settled(world: World) -> ClassicClient:
    client = ClassicClient(world, "one", ("orders",), cooperative=True)
    for _ in range(12):
        client.step()
    assert client.is_in
    return client


def test_an_empty_group_changes_its_protocol_freely_and_keeps_its_offsets() -> None:
    world = patient_world()
    commit = CommitOffsets(GROUP, (TopicOffsets("orders", (OffsetToCommit(0, 5),)),))
    assert world.runner.ask(commit, CommitAnswer).problem is None
    epoch = world.join("new").member_epoch
    world.beat("new", -1)
    client = settled(world)
    assert isinstance(world.runner.machine.state.find(GROUP), ClassicGroup)
    assert client.generation > epoch
    client.leave()
    assert world.join("new").problem is None
    assert isinstance(world.runner.machine.state.find(GROUP), ConsumerGroup)
    assert world.runner.machine.state.offsets.of(GROUP)["orders"][0].offset == 5
    world.restart(compacted=True)
    assert world.runner.machine.state.offsets.of(GROUP)["orders"][0].offset == 5


@pytest.mark.parametrize(
    "request_", [joining(group_id=GROUP, known_id=True), joining(group_id=GROUP, session_timeout_ms=1)]
)
def test_an_empty_group_that_a_classic_member_only_asked_to_join_keeps_its_offsets(request_: JoinGroup) -> None:
    """They were committed long ago, by a member that was there until just now."""
    world = World({"orders": 1}, ConsumerLimits(session_timeout_ms=100 * DAY_MS))
    epoch = world.join("new").member_epoch
    rows = (TopicOffsets("orders", (OffsetToCommit(0, 5),)),)
    commit = CommitOffsets(GROUP, rows, member_id="new", generation=epoch)
    assert world.runner.ask(commit, CommitAnswer).problem is None
    world.runner.advance(20 * DAY_MS)
    world.beat("new", -1)
    assert answer_of(world.runner.submit(request_), JoinAnswer).problem is not None
    world.runner.advance(DAY_MS)
    assert world.runner.machine.state.offsets.of(GROUP)["orders"][0].offset == 5
    world.restart(compacted=True)
    world.runner.advance(14 * DAY_MS)
    assert world.runner.machine.state.find(GROUP) is None


def test_epochs_never_come_twice_whatever_protocols_a_group_had_in_between() -> None:
    world = patient_world()
    first = world.join("new").member_epoch
    world.beat("new", first, {"orders": {0, 1, 2, 3}})
    world.beat("new", -1)
    client = settled(world)
    client.leave()
    world.restart(compacted=True)
    again = world.join("new").member_epoch
    assert again > client.generation > first
    late = world.beat("new", first, {"orders": {0, 1, 2, 3}})
    assert late.problem is Problem.FENCED_MEMBER_EPOCH, "it is from before, and says nothing of what the member has now"
    world.restart(compacted=True)
    assert world.group().epoch == again
