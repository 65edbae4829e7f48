"""Offsets in transactions: who may send them, when they are shown, and what becomes of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.groups.consumer_world import GROUP, World
from tests.groups.members import join, joining, stable_group
from tests.groups.runner import Runner
from tests.groups.transactions import (
    PRODUCER,
    commit,
    end,
    ending,
    fetched,
    is_unstable,
    numbered,
    send,
    sending,
)

from penstock.errors import Problem
from penstock.groups.core.answers import (
    CommitAnswer,
    DeleteGroupsAnswer,
    DeleteOffsetsAnswer,
    FetchAnswer,
    FetchedOffset,
    JoinAnswer,
    ListGroupsAnswer,
)
from penstock.groups.core.events import (
    DeleteGroups,
    DeleteOffsets,
    FetchOffsets,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    TopicOffsets,
    TopicPartitions,
    TopicsDeleted,
)
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.transaction_events import TxnOffsetCommit
from penstock.groups.core.transaction_offsets import MOST_SENDERS
from penstock.units import DAY_MS

OTHER = PRODUCER + 1


def listed(runner: Runner) -> list[str]:
    return [row.group_id for row in runner.ask(ListGroups(), ListGroupsAnswer).groups]


@pytest.mark.parametrize("restarts", [None, False, True])
@pytest.mark.parametrize("committed", [True, False])
def test_what_a_transaction_sent_is_shown_when_it_is_committed_and_never_else(
    committed: bool, restarts: bool | None
) -> None:
    runner = numbered()
    commit(runner, 5)
    rows = (OffsetToCommit(0, 42, 3, "note"), OffsetToCommit(300, 8))
    assert send(runner, TxnOffsetCommit("group", PRODUCER, 0, (TopicOffsets("orders", rows),))) is None
    if restarts is not None:
        runner.restart(compacted=restarts)
    assert fetched(runner) == FetchedOffset(0, 5)
    assert fetched(runner, stable=True) == FetchedOffset(0, problem=Problem.UNSTABLE_OFFSET_COMMIT)
    assert is_unstable(runner, 300) and not is_unstable(runner, 1)
    assert end(runner, ending(committed=committed)) is None
    for _ in range(2):
        assert fetched(runner, stable=True) == (FetchedOffset(0, 42, 3, "note") if committed else FetchedOffset(0, 5))
        assert fetched(runner, 300, stable=True) == (FetchedOffset(300, 8) if committed else FetchedOffset(300))
        runner.restart(compacted=bool(restarts))


def test_all_offsets_of_a_group_are_those_that_are_committed() -> None:
    runner = numbered()
    commit(runner, 5)
    send(runner, sending(partition=0))
    send(runner, sending(partition=1))
    shown = runner.ask(FetchOffsets("group", None), FetchAnswer).topics[0].partitions
    assert shown == (FetchedOffset(0, 5),)
    stable = runner.ask(FetchOffsets("group", None, require_stable=True), FetchAnswer).topics[0].partitions
    assert stable == (FetchedOffset(0, problem=Problem.UNSTABLE_OFFSET_COMMIT),)


def test_the_end_settles_all_groups_at_once() -> None:
    runner = numbered()
    for group_id in ("one", "two"):
        for partition in range(3):
            assert send(runner, sending(partition, group_id=group_id, partition=partition)) is None
    send(runner, sending(99, producer_id=OTHER, group_id="one", partition=9))
    runner.largest_decision = 0
    assert end(runner, ending()) is None
    assert runner.largest_decision == 12, "six commits and six tombstones, in one batch"
    assert [fetched(runner, number, group_id="two").offset for number in range(3)] == [0, 1, 2]
    assert is_unstable(runner, 9, group_id="one")


def test_the_last_of_several_in_one_transaction_counts() -> None:
    runner = numbered()
    for offset in (1, 2, 3):
        assert send(runner, sending(offset)) is None
    end(runner, ending())
    assert fetched(runner).offset == 3


def cases_of_members(runner: Runner) -> dict[TxnOffsetCommit, Problem | None]:
    (one,) = stable_group(runner, 1)
    event = replace(sending(), member_id=one.member_id, generation=one.generation)
    return {
        event: None,
        replace(event, member_id="", generation=-1): None,
        replace(event, generation=one.generation + 1): Problem.ILLEGAL_GENERATION,
        replace(event, generation=-1): Problem.ILLEGAL_GENERATION,
        replace(event, member_id="stranger"): Problem.UNKNOWN_MEMBER,
        replace(event, group_instance_id="no-instance"): Problem.UNKNOWN_MEMBER,
        replace(event, group_id="nowhere", generation=3): Problem.ILLEGAL_GENERATION,
        replace(event, group_id="nowhere", member_id="", generation=-1): None,
        replace(event, group_id=""): Problem.INVALID_GROUP_ID,
        replace(event, group_id="g" * 1025): Problem.INVALID_GROUP_ID,
    }


def test_members_send_in_their_generation_and_older_producers_without_one() -> None:
    runner = numbered()
    cases = cases_of_members(runner)
    for event, problem in cases.items():
        written = len(runner.log)
        assert send(runner, event) is problem, event
        assert (len(runner.log) > written) == (problem is None)


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    runner = numbered()
    first = join(runner, joining(instance_id="static"))
    second = join(runner, joining(instance_id="static"))
    event = replace(sending(), member_id=first.member_id, generation=first.generation, group_instance_id="static")
    assert send(runner, event) is Problem.FENCED_INSTANCE_ID
    now = replace(event, member_id=second.member_id, generation=second.generation)
    assert send(runner, now) is None, "also before the assignment is known"


def test_a_member_of_a_kip_848_group_sends_in_its_epoch() -> None:
    world = World({"orders": 2})
    world.join("a")
    event = replace(sending(), group_id=GROUP, member_id="a", generation=2)
    cases = {
        event: None,
        replace(event, generation=9): Problem.ILLEGAL_GENERATION,
        replace(event, member_id="b"): Problem.UNKNOWN_MEMBER,
        replace(event, member_id="", generation=-1): Problem.UNKNOWN_MEMBER,
    }
    assert {one: send(world.runner, one) for one in cases} == cases


def test_rows_are_refused_one_by_one_where_only_they_are_wrong() -> None:
    runner = numbered(GroupLimits(offset_metadata_max_bytes=5))
    rows = (OffsetToCommit(0, 1, metadata="123456"), OffsetToCommit(1, 2))
    event = TxnOffsetCommit("group", PRODUCER, 0, (TopicOffsets("orders", rows),))
    guard = runner.machine.transaction_guard(PRODUCER, 0)
    answer = runner.ask(replace(event, guard=guard), CommitAnswer)
    problems = [row.problem for row in answer.topics[0].partitions]
    assert problems == [Problem.OFFSET_METADATA_TOO_LARGE, None]
    assert not is_unstable(runner, 0) and is_unstable(runner, 1)


def test_one_transaction_has_a_limit_because_it_ends_in_one_batch() -> None:
    runner = numbered(GroupLimits(max_group_bytes=10_000))
    accepted = [send(runner, sending(partition=number)) for number in range(100)].count(None)
    assert 10 < accepted < 50
    assert send(runner, sending(partition=99)) is Problem.INVALID_COMMIT_OFFSET_SIZE
    assert send(runner, sending(producer_id=OTHER, partition=99)) is None, "another has its own"
    end(runner, ending())
    assert send(runner, sending(partition=99)) is None, "and so has the next one"


def test_an_offset_has_only_so_many_senders_because_who_commits_it_writes_of_all() -> None:
    """Else small requests make a batch that no follower gets, and with it all groups of the partition stand still."""
    runner = numbered()
    producers = range(100, 100 + MOST_SENDERS)
    assert {send(runner, sending(producer_id=each)) for each in producers} == {None}
    assert send(runner, sending()) is Problem.COORDINATOR_LOADING
    assert send(runner, sending(partition=1)) is None, "another offset has its own"
    assert send(runner, sending(43, producer_id=producers[0])) is None, "it is one of them"
    end(runner, ending(producer_id=producers[1], committed=False))
    assert send(runner, sending()) is None
    end(runner, ending())
    assert fetched(runner, stable=True) == FetchedOffset(0, 42)


# What groups do meanwhile


def test_pending_offsets_make_a_group_for_as_long_as_they_are() -> None:
    runner = numbered()
    send(runner, sending())
    assert listed(runner) == ["group"]
    joined = join(runner, joining())
    assert isinstance(joined, JoinAnswer) and joined.problem is None
    runner.ask(LeaveGroup("group", (LeavingMember(joined.member_id),)), object)
    send(runner, sending(group_id="aborted"))
    end(runner, ending(committed=False))
    assert listed(runner) == ["group"]


def test_neither_a_group_nor_its_offset_expires_under_a_transaction() -> None:
    runner = numbered(GroupLimits(initial_rebalance_delay_ms=0))
    commit(runner, 5)
    commit(runner, 6, partition=1)
    send(runner, sending())
    send(runner, sending(group_id="new"))
    runner.advance(15 * DAY_MS)
    assert (fetched(runner).offset, fetched(runner, 1).offset) == (5, -1)
    assert sorted(listed(runner)) == ["group", "new"]
    end(runner, ending())
    runner.advance(13 * DAY_MS)
    assert fetched(runner).offset == 42, "its time runs from the end of the transaction"
    runner.advance(2 * DAY_MS)
    assert listed(runner) == []


def test_a_deleted_group_takes_along_what_transactions_sent() -> None:
    runner = numbered()
    commit(runner, 5)
    send(runner, sending())
    send(runner, sending(producer_id=OTHER, partition=1))
    assert runner.ask(DeleteGroups(("group",)), DeleteGroupsAnswer).groups[0].problem is None
    assert end(runner, ending()) is None
    assert end(runner, ending(producer_id=OTHER)) is None
    assert listed(runner) == []
    runner.restart(compacted=True)
    assert listed(runner) == []


def test_deleted_offsets_and_topics_take_them_along_too() -> None:
    runner = numbered()
    for topic in ("orders", "bills"):
        for partition in (0, 1):
            send(runner, sending(topic=topic, partition=partition))
    wanted = (TopicPartitions("orders", (0,)),)
    assert runner.ask(DeleteOffsets("group", wanted), DeleteOffsetsAnswer).problem is None
    runner.submit(TopicsDeleted(("bills",)))
    runner.restart(compacted=True)
    assert [is_unstable(runner, number) for number in (0, 1)] == [False, True]
    assert not is_unstable(runner, topic="bills")
    end(runner, ending())
    answer = runner.ask(FetchOffsets("group", None), FetchAnswer)
    assert [(topic.topic, topic.partitions) for topic in answer.topics] == [("orders", (FetchedOffset(1, 42),))]
