"""Committed offsets: who may commit, what is fetched, what can be deleted."""

import time

import pytest
from tests.groups.members import SESSION_MS, beat, join, joining, running, stable_group, subscription, sync
from tests.groups.runner import Runner

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, DeleteOffsetsAnswer, FetchAnswer, FetchedOffset, JoinAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    TopicOffsets,
    TopicPartitions,
    TopicsDeleted,
)
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine

OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


def rows(topic: str = "orders", offset: int = 42, *, topic_id: bytes = b"", metadata: str = "") -> tuple[TopicOffsets]:
    return (TopicOffsets(topic, (OffsetToCommit(0, offset, 7, metadata), OffsetToCommit(300, offset)), topic_id),)


def commit(runner: Runner, event: CommitOffsets) -> CommitAnswer:
    return runner.ask(event, CommitAnswer)


def fetched(runner: Runner, topic: str = "orders", partition: int = 0, topic_id: bytes = b"") -> FetchedOffset:
    event = FetchOffsets("group", (TopicPartitions(topic, (partition,), topic_id),))
    answer = runner.ask(event, FetchAnswer)
    assert answer.problem is None
    return answer.topics[0].partitions[0]


def test_what_was_committed_is_fetched() -> None:
    runner = running()
    answer = commit(runner, CommitOffsets("group", rows(metadata="note")))
    assert [row.problem for row in answer.topics[0].partitions] == [None, None]
    assert [row.partition for row in answer.topics[0].partitions] == [0, 300]
    assert fetched(runner) == FetchedOffset(0, 42, 7, "note")
    assert fetched(runner, partition=1) == FetchedOffset(1)
    assert fetched(runner, topic="other") == FetchedOffset(0)


def test_all_offsets_of_a_group_are_fetched_at_once() -> None:
    runner = running()
    commit(runner, CommitOffsets("group", rows() + rows("other", 1)))
    answer = runner.ask(FetchOffsets("group", None), FetchAnswer)
    found = {(topic.topic, row.partition): row.offset for topic in answer.topics for row in topic.partitions}
    assert found == {("orders", 0): 42, ("orders", 300): 42, ("other", 0): 1, ("other", 300): 1}
    assert runner.ask(FetchOffsets("nowhere", None), FetchAnswer) == FetchAnswer(None)


@pytest.mark.parametrize("compacted", [False, True])
def test_the_newest_commit_survives_a_restart(compacted: bool) -> None:
    runner = running()
    for offset in range(5):
        commit(runner, CommitOffsets("group", rows(offset=offset)))
    runner.restart(compacted=compacted)
    assert fetched(runner).offset == 4


def test_a_member_commits_in_its_generation() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    cases = {
        CommitOffsets("group", rows(), one.member_id, one.generation): None,
        CommitOffsets("group", rows(), one.member_id, one.generation + 1): Problem.ILLEGAL_GENERATION,
        CommitOffsets("group", rows(), one.member_id, -1): Problem.ILLEGAL_GENERATION,
        CommitOffsets("group", rows(), "stranger", one.generation): Problem.UNKNOWN_MEMBER,
        CommitOffsets("group", rows(), one.member_id, one.generation, "no-instance"): Problem.UNKNOWN_MEMBER,
        CommitOffsets("group", rows()): Problem.UNKNOWN_MEMBER,
        CommitOffsets("nowhere", rows(), "stranger", 1): Problem.UNKNOWN_GROUP,
        CommitOffsets("nowhere", rows(), "stranger", 1, knows_member_epochs=False): Problem.ILLEGAL_GENERATION,
    }
    assert {event: commit(runner, event).problem for event in cases} == cases


def test_refused_commits_write_nothing() -> None:
    runner = running()
    stable_group(runner, 1)
    written = len(runner.log)
    assert commit(runner, CommitOffsets("group", rows(), "stranger", 1)).problem is not None
    assert len(runner.log) == written


def test_members_may_commit_while_others_rejoin_but_not_before_they_know_their_assignment() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    runner.submit(joining())
    assert commit(runner, CommitOffsets("group", rows(), one.member_id, one.generation)).problem is None
    again = join(runner, joining(one.member_id))
    event = CommitOffsets("group", rows(), again.member_id, again.generation)
    assert commit(runner, event).problem is Problem.REBALANCE_IN_PROGRESS


def test_a_commit_keeps_the_session() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    for _ in range(3):
        runner.advance(SESSION_MS - 1)
        assert commit(runner, CommitOffsets("group", rows(), one.member_id, one.generation)).problem is None
    assert beat(runner, one) is None


def test_who_is_no_member_commits_to_empty_groups_only() -> None:
    runner = running()
    assert commit(runner, CommitOffsets("group", rows())).problem is None
    (one,) = stable_group(runner, 1)
    assert commit(runner, CommitOffsets("group", rows())).problem is Problem.UNKNOWN_MEMBER
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), object)
    assert commit(runner, CommitOffsets("group", rows())).problem is None


def test_metadata_has_a_limit_in_bytes() -> None:
    runner = running(GroupLimits(offset_metadata_max_bytes=5))
    for text, fits in (("12345", True), ("123456", False), ("äää", False), ("ää1", True)):
        answer = commit(runner, CommitOffsets("group", rows(metadata=text)))
        problems = [row.problem for row in answer.topics[0].partitions]
        assert problems == [None if fits else Problem.OFFSET_METADATA_TOO_LARGE, None], text
    assert fetched(runner).metadata == "ää1"


def test_a_commit_has_a_limit_too() -> None:
    runner = running(GroupLimits(max_group_bytes=10_000))
    many = (TopicOffsets("orders", tuple(OffsetToCommit(number, 1) for number in range(100))),)
    assert commit(runner, CommitOffsets("group", many)).problem is Problem.INVALID_COMMIT_OFFSET_SIZE
    assert commit(runner, CommitOffsets("g" * 1025, rows())).problem is Problem.INVALID_GROUP_ID
    assert not runner.log


def test_an_offset_is_not_inherited_by_a_later_topic_of_the_same_name() -> None:
    runner = running()
    commit(runner, CommitOffsets("group", rows(topic_id=OLD_ID)))
    assert fetched(runner, topic_id=OLD_ID).offset == 42
    assert fetched(runner, topic_id=NEW_ID).offset == -1
    assert fetched(runner).offset == 42, "callers that do not know ids are not refused"


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    runner = running()
    commit(runner, CommitOffsets("group", rows() + rows("other")))
    runner.submit(TopicsDeleted(("orders", "never-was")))
    assert fetched(runner).offset == -1
    assert fetched(runner, "other").offset == 42
    runner.restart(compacted=True)
    assert fetched(runner).offset == -1


def test_a_topic_that_many_groups_read_is_forgotten_in_parts() -> None:
    runner = running()
    everything = tuple(OffsetToCommit(partition, 42) for partition in range(1000))
    for number in range(12):
        commit(runner, CommitOffsets(f"group-{number}", (TopicOffsets("orders", everything),)))
    commit(runner, CommitOffsets("group", rows("other")))
    runner.largest_decision = 0
    for _ in range(3):
        runner.submit(TopicsDeleted(("orders",)))
    assert runner.largest_decision == 5000, "a batch with all would be too large for a follower, with long names"
    assert list(runner.machine.state.offsets) == ["group"]
    assert not runner.machine.has_offsets_of("orders")


def test_offsets_are_deleted_where_nobody_subscribes() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    commit(runner, CommitOffsets("group", rows() + rows("other"), one.member_id, one.generation))
    wanted = (TopicPartitions("orders", (0,)), TopicPartitions("other", (0, 9)))
    answer = runner.ask(DeleteOffsets("group", wanted), DeleteOffsetsAnswer)
    problems = {(topic.topic, row.partition): row.problem for topic in answer.topics for row in topic.partitions}
    assert problems == {("orders", 0): Problem.GROUP_SUBSCRIBED, ("other", 0): None, ("other", 9): None}
    assert fetched(runner).offset == 42
    assert fetched(runner, "other").offset == -1
    assert fetched(runner, "other", 300).offset == 42


def test_offsets_of_a_group_whose_subscriptions_cannot_be_read_are_not_deleted() -> None:
    runner = running()
    one = join(runner, joining(protocols=(("range", b"not a subscription"),)))
    sync(runner, one)
    answer = runner.ask(DeleteOffsets("group", (TopicPartitions("orders", (0,)),)), DeleteOffsetsAnswer)
    assert answer.topics[0].partitions[0].problem is Problem.GROUP_SUBSCRIBED


def test_what_is_deleted_is_written_once_however_often_it_is_named() -> None:
    runner = running()
    commit(runner, CommitOffsets("group", rows()))
    before = len(runner.log)
    runner.ask(DeleteOffsets("group", (TopicPartitions("orders", (0,)),) * 1000), DeleteOffsetsAnswer)
    assert len(runner.log) - before == 1


def test_large_subscriptions_are_read_once_for_all_topics_whose_offsets_shall_be_deleted() -> None:
    """Everybody waits meanwhile: read for each of them, this would take a minute, and far larger requests come in."""
    runner = running()
    large = subscription(*(f"topic-{number}" for number in range(100_000)))
    one = join(runner, joining(protocols=(("range", large),)))
    sync(runner, one, b"all")
    wanted = tuple(TopicPartitions(f"other-{number}", (0,)) for number in range(500))
    started_s = time.process_time()
    answer = runner.ask(DeleteOffsets("group", wanted), DeleteOffsetsAnswer)
    assert time.process_time() - started_s < 5
    assert {row.problem for topic in answer.topics for row in topic.partitions} == {None}


def test_deleting_offsets_is_checked() -> None:
    runner = running()
    nowhere = runner.ask(DeleteOffsets("nowhere", ()), DeleteOffsetsAnswer)
    assert nowhere.problem is Problem.UNKNOWN_GROUP
    worker = join(runner, joining(protocol_type="connect", protocols=(("default", b""),)))
    assert worker.problem is None
    assert runner.ask(DeleteOffsets("group", ()), DeleteOffsetsAnswer).problem is Problem.GROUP_NOT_EMPTY


def test_a_group_that_only_stores_offsets_can_be_joined_and_keeps_them() -> None:
    runner = running()
    commit(runner, CommitOffsets("group", rows()))
    joined = join(runner, joining(protocols=(("range", subscription("orders")),)))
    assert isinstance(joined, JoinAnswer)
    assert joined.problem is None
    assert fetched(runner).offset == 42


def committing(offset: int, connection: int, member: JoinAnswer | None = None) -> CommitOffsets:
    who = ("", -1) if member is None else (member.member_id, member.generation)
    return CommitOffsets("group", rows(offset=offset, topic_id=OLD_ID), *who, connection=connection)


def test_a_commit_that_comes_late_does_not_take_its_group_back() -> None:
    runner = running()
    one, two = stable_group(runner, 2)
    for event in (committing(40, 7, one), committing(45, 9, one), committing(60, 9, one)):
        assert commit(runner, event).problem is None
    # Sent on the first connection before the others, delivered when the member had long repeated it on the second.
    assert commit(runner, committing(45, 7, one)).problem is Problem.COMMIT_OVERTAKEN
    assert fetched(runner).offset == 60
    assert commit(runner, committing(61, 8, two)).problem is None, "older, and nobody goes back"


def test_a_late_commit_is_recognised_by_a_coordinator_that_began_since() -> None:
    began = iter((3, 20))
    runner = Runner(lambda: GroupsMachine(GroupLimits(initial_rebalance_delay_ms=0), ConsumerLimits(), next(began)))
    (one,) = stable_group(runner, 1)
    for offset, connection in ((60, 2), (59, 2), (70, 12)):
        assert commit(runner, committing(offset, connection, one)).problem is None, "nothing was there when it began"
    runner.restart()
    assert commit(runner, committing(60, 19, one)).problem is Problem.COMMIT_OVERTAKEN
    assert fetched(runner).offset == 70
    assert commit(runner, committing(71, 19, one)).problem is None
    for offset in (60, 59):
        assert commit(runner, committing(offset, 21, one)).problem is None, "on purpose"
    of_another_topic = CommitOffsets("group", rows(offset=1, topic_id=NEW_ID), one.member_id, one.generation)
    assert commit(runner, of_another_topic).problem is None


def test_who_is_no_member_sends_a_group_back_on_any_connection() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    assert commit(runner, committing(60, 9, one)).problem is None
    runner.ask(LeaveGroup("group", (LeavingMember(one.member_id),)), object)
    assert commit(runner, committing(1, 7)).problem is None
    assert fetched(runner).offset == 1


def test_nothing_is_remembered_of_connections_without_offsets() -> None:
    runner = running()
    (one,) = stable_group(runner, 1)
    commit(runner, committing(60, 9, one))
    runner.submit(TopicsDeleted(("orders",)))
    commit(runner, CommitOffsets("group", (), one.member_id, one.generation, connection=9))
    for offset in (5, 4):
        assert commit(runner, committing(offset, 7, one)).problem is None


def test_many_offsets_are_deleted_in_parts() -> None:
    runner = running()
    everything = tuple(OffsetToCommit(partition, 42) for partition in range(12_000))
    commit(runner, CommitOffsets("group", (TopicOffsets("orders", everything),)))
    event = DeleteOffsets("group", (TopicPartitions("orders", tuple(range(12_000))),))
    runner.largest_decision = 0
    for left in (7000, 2000, 0):
        assert runner.ask(event, DeleteOffsetsAnswer).problem is None
        assert runner.machine.count_offsets("group") == left
    assert runner.largest_decision == 5000
