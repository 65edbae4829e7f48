"""Assignors: every partition once, as even as possible, and no partition moves without need."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.core.assignor_range import assign_range
from penstock.groups.core.assignor_uniform import assign_uniform
from penstock.groups.core.assignors import Assignor, Partitions, Subscriber, Subscriptions

TOPICS = [UUID(int=number) for number in range(1, 7)]
Plan = Mapping[str, frozenset[UUID]]

counts_of_topics = st.fixed_dictionaries({topic_id: st.integers(1, 9) for topic_id in TOPICS})
member_ids = st.sampled_from([f"member-{number}" for number in range(8)])
any_plan = st.dictionaries(member_ids, st.frozensets(st.sampled_from(TOPICS)), max_size=8)


def subscriptions(plan: Plan, counts: Mapping[UUID, int], before: Mapping[str, Partitions]) -> Subscriptions:
    members = {id_: Subscriber(topic_ids=topics, target=before.get(id_, {})) for id_, topics in plan.items()}
    return Subscriptions(members=members, partition_counts=counts)


def pairs(partitions: Partitions) -> set[tuple[UUID, int]]:
    return {(topic_id, index) for topic_id, indexes in partitions.items() for index in indexes}


def loads(result: Mapping[str, Partitions]) -> dict[str, int]:
    return {id_: len(pairs(partitions)) for id_, partitions in result.items()}


def check_complete(plan: Plan, counts: Mapping[UUID, int], result: Mapping[str, Partitions]) -> None:
    assert result.keys() == plan.keys()
    given_out = [pair for partitions in result.values() for pair in pairs(partitions)]
    wanted = {(id_, index) for topics in plan.values() for id_ in topics for index in range(counts[id_])}
    assert sorted(given_out) == sorted(wanted)
    assert all(partitions.keys() <= plan[id_] for id_, partitions in result.items())
    assert all(indexes for partitions in result.values() for indexes in partitions.values())


@pytest.mark.parametrize("assign", [assign_uniform, assign_range])
@given(plan=any_plan, later_plan=any_plan, counts=counts_of_topics, later_counts=counts_of_topics)
def test_every_partition_with_a_subscriber_has_one_owner(
    assign: Assignor, plan: Plan, later_plan: Plan, counts: dict[UUID, int], later_counts: dict[UUID, int]
) -> None:
    first = assign(subscriptions(plan, counts, {}))
    check_complete(plan, counts, first)
    later = assign(subscriptions(later_plan, later_counts, first))
    check_complete(later_plan, later_counts, later)


@given(plan=any_plan, later_plan=any_plan, counts=counts_of_topics, later_counts=counts_of_topics)
def test_uniform_leaves_no_move_that_would_even_out(
    plan: Plan, later_plan: Plan, counts: dict[UUID, int], later_counts: dict[UUID, int]
) -> None:
    first = assign_uniform(subscriptions(plan, counts, {}))
    result = assign_uniform(subscriptions(later_plan, later_counts, first))
    load = loads(result)
    for giver, partitions in result.items():
        for topic_id in partitions:
            for taker, topics in later_plan.items():
                assert topic_id not in topics or load[giver] - load[taker] <= 1


@given(
    topics=st.frozensets(st.sampled_from(TOPICS), min_size=1),
    counts=counts_of_topics,
    before=st.sets(member_ids, min_size=1),
    after=st.sets(member_ids, min_size=1),
)
def test_uniform_with_equal_subscriptions_moves_only_what_balance_needs(
    topics: frozenset[UUID], counts: dict[UUID, int], before: set[str], after: set[str]
) -> None:
    first = assign_uniform(subscriptions(dict.fromkeys(before, topics), counts, {}))
    second = assign_uniform(subscriptions(dict.fromkeys(after, topics), counts, first))
    load = loads(second)
    assert max(load.values()) - min(load.values()) <= 1

    each, extra = divmod(sum(counts[topic_id] for topic_id in topics), len(after))
    # The fewest moves: each remaining member keeps what its quota allows, and the larger quotas go to the fullest.
    stayed = sorted((loads(first)[id_] for id_ in before & after), reverse=True)
    best = sum(min(count, each + (position < extra)) for position, count in enumerate(stayed))
    kept = sum(len(pairs(first[id_]) & pairs(second[id_])) for id_ in before & after)
    assert kept == best


@given(plan=any_plan, counts=counts_of_topics, leaver=member_ids)
def test_uniform_moves_only_the_partitions_of_a_member_that_leaves(
    plan: Plan, counts: dict[UUID, int], leaver: str
) -> None:
    topics = frozenset(TOPICS)
    equal_plan = dict.fromkeys(plan, topics)
    first = assign_uniform(subscriptions(equal_plan, counts, {}))
    rest = {id_: equal_plan[id_] for id_ in equal_plan if id_ != leaver}
    second = assign_uniform(subscriptions(rest, counts, first))
    for member_id in rest:
        assert pairs(first[member_id]) <= pairs(second[member_id])


@given(plan=any_plan, counts=counts_of_topics)
def test_uniform_changes_nothing_when_nothing_changed(plan: Plan, counts: dict[UUID, int]) -> None:
    first = assign_uniform(subscriptions(plan, counts, {}))
    assert assign_uniform(subscriptions(plan, counts, first)) == first


@pytest.mark.parametrize(("topic_count", "partition_count"), [(10_000, 1), (1, 40_000)])
def test_uniform_takes_a_moment_for_a_second_member_of_a_large_group(topic_count: int, partition_count: int) -> None:
    """Everybody waits meanwhile."""
    counts = {UUID(int=number + 1): partition_count for number in range(topic_count)}
    everything = frozenset(counts)
    alone = assign_uniform(subscriptions({"first": everything}, counts, {}))
    started_s = time.process_time()
    shared = assign_uniform(subscriptions({"first": everything, "second": everything}, counts, alone))
    assert time.process_time() - started_s < 2
    assert set(loads(shared).values()) == {topic_count * partition_count // 2}


def test_uniform_gives_a_member_with_few_choices_its_only_topic() -> None:
    picky, open_ = frozenset(TOPICS[:1]), frozenset(TOPICS[:2])
    result = assign_uniform(subscriptions({"a": open_, "b": picky}, {TOPICS[0]: 4, TOPICS[1]: 4}, {}))
    assert result == {"a": {TOPICS[1]: frozenset(range(4))}, "b": {TOPICS[0]: frozenset(range(4))}}


def test_range_brings_equal_partition_numbers_together() -> None:
    plan = dict.fromkeys(("a", "b", "c"), frozenset(TOPICS[:2]))
    result = assign_range(subscriptions(plan, {TOPICS[0]: 7, TOPICS[1]: 7}, {}))
    assert result["a"] == {TOPICS[0]: frozenset({0, 1, 2}), TOPICS[1]: frozenset({0, 1, 2})}
    assert result["b"] == {TOPICS[0]: frozenset({3, 4}), TOPICS[1]: frozenset({3, 4})}
    assert result["c"] == {TOPICS[0]: frozenset({5, 6}), TOPICS[1]: frozenset({5, 6})}


def test_range_keeps_a_static_member_in_its_place_when_its_member_id_changes() -> None:
    def with_member_ids(first: str, second: str) -> Subscriptions:
        members = {
            first: Subscriber(topic_ids=frozenset(TOPICS[:1]), target={}, instance_id="one"),
            second: Subscriber(topic_ids=frozenset(TOPICS[:1]), target={}, instance_id="two"),
        }
        return Subscriptions(members=members, partition_counts={TOPICS[0]: 4})

    assert assign_range(with_member_ids("x", "y"))["x"] == assign_range(with_member_ids("z", "y"))["z"]
