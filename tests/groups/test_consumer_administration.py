"""KIP-848 groups as offsets, listings, deletions and the operator see them."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from tests.groups.consumer_world import GROUP, World, topic

from penstock.config.consumer_groups import ConsumerGroupSettings
from penstock.errors import PenstockError, Problem
from penstock.groups.core.answers import (
    CommitAnswer,
    DeleteGroupsAnswer,
    DeleteOffsetsAnswer,
    DescribeGroupsAnswer,
    FetchAnswer,
    ListGroupsAnswer,
)
from penstock.groups.core.consumer_limits import ConsumerLimits, MigrationPolicy
from penstock.groups.core.consumer_records import GroupEpochValue
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ListGroups,
    OffsetToCommit,
    TopicOffsets,
    TopicPartitions,
)
from penstock.groups.core.records import ConsumerGroupCurrent, ConsumerGroupEpoch, decode, encode
from penstock.units import DAY_MS, HOUR_MS

COMMIT = CommitOffsets(GROUP, (TopicOffsets("orders", (OffsetToCommit(0, 5),)),), member_id="a", generation=2)
FETCH = FetchOffsets(GROUP, None, member_id="a", member_epoch=2)


def world_with_member() -> World:
    world = World({"orders": 2, "bills": 1})
    world.join("a")
    return world


def test_commits_need_the_members_own_epoch() -> None:
    world = world_with_member()
    ask = world.runner.ask
    assert ask(COMMIT, CommitAnswer).problem is None
    assert ask(replace(COMMIT, generation=4), CommitAnswer).problem is Problem.STALE_MEMBER_EPOCH
    assert ask(replace(COMMIT, generation=0), CommitAnswer).problem is Problem.STALE_MEMBER_EPOCH
    assert ask(replace(COMMIT, member_id="b"), CommitAnswer).problem is Problem.UNKNOWN_MEMBER
    assert ask(replace(COMMIT, knows_member_epochs=False), CommitAnswer).problem is Problem.UNSUPPORTED_VERSION
    outsider = replace(COMMIT, member_id="", generation=-1)
    assert ask(outsider, CommitAnswer).problem is Problem.UNKNOWN_MEMBER
    world.beat("a", -1)
    assert ask(outsider, CommitAnswer).problem is None


def test_nobody_commits_for_a_static_member_that_is_away() -> None:
    world = World({"orders": 2})
    epoch = world.join("a", instance_id="i").member_epoch
    assert world.beat("a", -2, instance_id="i").problem is None
    for generation in (-2, -1, epoch):
        assert commit_problem(world, generation) is Problem.STALE_MEMBER_EPOCH
    away = replace(FETCH, member_epoch=-2)
    assert world.runner.ask(away, FetchAnswer).problem is Problem.STALE_MEMBER_EPOCH


def commit_problem(world: World, generation: int) -> Problem | None:
    return world.runner.ask(replace(COMMIT, generation=generation), CommitAnswer).problem


def commit_of(epoch: int, *partitions: int) -> CommitOffsets:
    offsets = tuple(OffsetToCommit(partition, 5) for partition in partitions)
    return replace(COMMIT, topics=(TopicOffsets("orders", offsets, topic(1).bytes),), generation=epoch)


def test_a_member_that_does_not_know_its_new_epoch_yet_commits_for_what_it_still_has() -> None:
    world = world_with_member()
    ask = world.runner.ask
    world.join("b")
    assert world.beat("a", 2, {"orders": {0, 1}}).member_epoch == 3
    assert ask(commit_of(2, 0, 1), CommitAnswer).problem is None
    assert ask(replace(COMMIT, generation=2), CommitAnswer).problem is Problem.STALE_MEMBER_EPOCH, "of which topic?"
    assert world.beat("a", 3, {"orders": {0}}).member_epoch == 4
    assert ask(commit_of(3, 0), CommitAnswer).problem is None
    assert ask(commit_of(3, 0, 1), CommitAnswer).problem is Problem.STALE_MEMBER_EPOCH
    assert ask(commit_of(2, 0), CommitAnswer).problem is Problem.STALE_MEMBER_EPOCH


def test_fetches_need_the_members_own_epoch_if_they_name_a_member() -> None:
    world = world_with_member()
    ask = world.runner.ask
    assert ask(FETCH, FetchAnswer).problem is None
    assert ask(replace(FETCH, member_epoch=4), FetchAnswer).problem is Problem.STALE_MEMBER_EPOCH
    assert ask(replace(FETCH, member_id="b"), FetchAnswer).problem is Problem.UNKNOWN_MEMBER
    assert ask(replace(FETCH, member_id=None, member_epoch=-1), FetchAnswer).problem is None


def test_what_was_committed_for_an_earlier_topic_of_the_name_is_not_among_all_offsets() -> None:
    """Nobody told the coordinator that it was deleted: it was loading then."""
    world = World({"orders": 1, "bills": 1})
    rows = tuple(
        TopicOffsets(name, (OffsetToCommit(0, 5),), topic(number).bytes)
        for number, name in ((1, "orders"), (2, "bills"))
    )
    assert world.runner.ask(CommitOffsets(GROUP, rows), CommitAnswer).problem is None
    world.set_topics({"bills": 1})
    everything = FetchOffsets(GROUP, None)
    found = {row.topic for row in world.runner.ask(everything, FetchAnswer).topics}
    assert found == {"orders", "bills"}, "the topic may come back"
    world.set_topics({"orders": 1, "bills": 1})
    found = {row.topic for row in world.runner.ask(everything, FetchAnswer).topics}
    assert found == {"bills"}


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    world = world_with_member()
    world.join("b", topics=None, regex="bil.*")
    topics = tuple(TopicPartitions(topic, (0,)) for topic in ("orders", "bills", "others"))
    answer = world.runner.ask(DeleteOffsets(GROUP, topics), DeleteOffsetsAnswer)
    problems = [row.problem for topic in answer.topics for row in topic.partitions]
    assert problems == [Problem.GROUP_SUBSCRIBED, Problem.GROUP_SUBSCRIBED, None]


def test_offsets_expire_by_their_age_unless_the_topic_is_subscribed() -> None:
    world = World({"orders": 2, "bills": 1}, ConsumerLimits(session_timeout_ms=100 * DAY_MS))
    world.join("a")
    other = replace(COMMIT, topics=(TopicOffsets("bills", (OffsetToCommit(0, 7),)),))
    world.runner.ask(COMMIT, CommitAnswer)
    world.runner.ask(other, CommitAnswer)
    world.runner.advance(15 * DAY_MS)
    offsets = world.runner.machine.state.offsets.of(GROUP)
    assert "orders" in offsets
    assert "bills" not in offsets


@pytest.mark.parametrize("last", ["leaves", "is silent"])
def test_offsets_live_fourteen_days_from_when_the_last_member_went(last: str) -> None:
    world = World({"orders": 2}, ConsumerLimits(session_timeout_ms=20 * DAY_MS))
    world.join("a")
    world.runner.ask(COMMIT, CommitAnswer)
    if last == "leaves":
        world.runner.advance(20 * DAY_MS - 1)
        world.beat("a", -1)
    else:
        world.runner.advance(20 * DAY_MS)
    assert world.group().is_empty
    world.restart(compacted=True)
    world.runner.advance(14 * DAY_MS - HOUR_MS)
    assert world.runner.ask(replace(FETCH, member_id=None, member_epoch=-1), FetchAnswer).topics
    world.runner.advance(2 * HOUR_MS)
    assert world.runner.machine.state.find(GROUP) is None
    world.restart(compacted=True)
    assert world.runner.log == []


def test_a_group_that_is_joined_again_begins_to_age_anew() -> None:
    world = World({"orders": 2, "bills": 1}, ConsumerLimits(session_timeout_ms=100 * DAY_MS))
    world.join("a")
    world.runner.ask(COMMIT, CommitAnswer)
    world.beat("a", -1)
    world.runner.advance(13 * DAY_MS)
    world.join("b", ("bills",))
    world.runner.advance(2 * DAY_MS)
    assert "orders" not in world.runner.machine.state.offsets.of(GROUP), "nobody subscribes to it, and it is old"


def test_a_group_stored_before_it_was_known_when_it_emptied_is_read() -> None:
    key, value = encode(ConsumerGroupEpoch(GROUP, GroupEpochValue(3, 4)))
    assert value is not None
    fields = msgspec.msgpack.decode(value[1:])
    assert decode(key, value[:1] + msgspec.msgpack.encode(fields[:2])) == ConsumerGroupEpoch(
        GROUP, GroupEpochValue(3, 4, -1)
    )


def test_a_member_stored_before_it_was_known_what_it_had_listed_has_listed_all() -> None:
    world = world_with_member()
    key, value = next(pair for pair in reversed(world.runner.log) if isinstance(decode(*pair), ConsumerGroupCurrent))
    assert value is not None
    fields = msgspec.msgpack.decode(value[1:])
    world.runner.log.append((key, value[:1] + msgspec.msgpack.encode(fields[:5])))
    world.restart(compacted=True)
    assert world.beat("a", 2).assignment is None
    world.join("b")
    assert world.names(world.beat("a", 2).assignment) == {"orders": {0}}


def test_listing_shows_and_filters_type_and_state() -> None:
    world = world_with_member()
    (row,) = world.runner.ask(ListGroups(), ListGroupsAnswer).groups
    assert (row.group_id, row.group_type, row.state, row.protocol_type) == (GROUP, "Consumer", "Stable", "consumer")
    assert world.runner.ask(ListGroups(types=("consumer",), states=("stable",)), ListGroupsAnswer).groups == (row,)
    assert world.runner.ask(ListGroups(types=("classic",)), ListGroupsAnswer).groups == ()
    assert world.runner.ask(ListGroups(states=("Reconciling",)), ListGroupsAnswer).groups == ()


def test_the_classic_description_does_not_know_the_group() -> None:
    world = world_with_member()
    (row,) = world.runner.ask(DescribeGroups((GROUP,)), DescribeGroupsAnswer).groups
    assert (row.problem, row.state) == (Problem.UNKNOWN_GROUP, "Dead")
    assert world.described("nobody").problem is Problem.UNKNOWN_GROUP


def test_a_description_has_all_there_is_to_know() -> None:
    world = World({"orders": 2})
    world.join("a", instance_id="one")
    world.join("b", topics=None, regex="ord.*", assignor="range")
    group = world.described()
    assert (group.state, group.group_epoch, group.assignment_epoch, group.assignor) == ("Reconciling", 4, 4, "range")
    first, second = group.members
    assert (first.member_id, first.instance_id, first.member_epoch, first.topic_names) == ("a", "one", 2, ("orders",))
    assert [(row.topic, row.partitions) for row in first.assignment] == [("orders", (0, 1))]
    assert [(row.topic, row.partitions) for row in first.target] == [("orders", (0,))]
    assert (second.topic_regex, second.topic_names, second.assignment, second.is_classic) == ("ord.*", (), (), False)
    assert (second.client_id, second.client_host) == ("client", "127.0.0.1")


def test_only_empty_groups_can_be_deleted_and_nothing_of_them_stays() -> None:
    world = world_with_member()
    world.runner.ask(COMMIT, CommitAnswer)
    (row,) = world.runner.ask(DeleteGroups((GROUP,)), DeleteGroupsAnswer).groups
    assert row.problem is Problem.GROUP_NOT_EMPTY
    world.beat("a", -1)
    (row,) = world.runner.ask(DeleteGroups((GROUP,)), DeleteGroupsAnswer).groups
    assert row.problem is None
    assert world.runner.machine.state.find(GROUP) is None
    world.restart(compacted=True)
    assert world.runner.log == []


def test_a_member_state_that_only_a_newer_version_knows_is_refused() -> None:
    world = world_with_member()
    key, value = next(pair for pair in reversed(world.runner.log) if isinstance(decode(*pair), ConsumerGroupCurrent))
    assert value is not None
    fields = msgspec.msgpack.decode(value[1:])
    fields[2] = 9
    with pytest.raises(PenstockError):
        decode(key, value[:1] + msgspec.msgpack.encode(fields))
    assert encode(decode(key, value)) == (key, value)


def test_every_migration_policy_that_can_be_set_has_a_meaning() -> None:
    for name in ("disabled", "upgrade", "downgrade", "bidirectional"):
        chosen = ConsumerGroupSettings().overridden_by({"group.consumer.migration.policy": name})
        assert MigrationPolicy(chosen.migration_policy).value == name
    with pytest.raises(PenstockError, match="must be one of"):
        ConsumerGroupSettings().overridden_by({"group.consumer.migration.policy": "upgrade,downgrade"})
