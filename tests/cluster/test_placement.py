"""Where new replicas go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.planning import closeness, flat, fleets, taking

from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.placement import check_assignment, check_reassignment, place
from penstock.errors import PenstockError, Problem
from penstock.units import GIB


def spread(counts: Counter[int], brokers: Sequence[Broker]) -> int:
    """Between the broker that has most and the one that has least."""
    numbers = [counts[broker.node_id] for broker in brokers]
    return max(numbers) - min(numbers)


def replica_counts(placed: Sequence[Sequence[int]]) -> Counter[int]:
    return Counter(node_id for replicas in placed for node_id in replicas)


def leader_counts(placed: Sequence[Sequence[int]]) -> Counter[int]:
    return Counter(replicas[0] for replicas in placed)


@settings(max_examples=150)
@given(brokers=fleets(), partition_count=st.integers(0, 12), data=st.data())
def test_replicas_are_as_far_apart_as_is_possible(
    brokers: list[Broker], partition_count: int, data: st.DataObject
) -> None:
    takers = taking(brokers)
    if not takers:
        with pytest.raises(PenstockError):
            place(brokers, partition_count, 1)
        return
    replication_factor = data.draw(st.integers(1, min(4, len(takers))))
    placed = place(brokers, partition_count, replication_factor)
    possible = min(closeness(brokers, chosen) for chosen in combinations(sorted(takers), replication_factor))
    assert len(placed) == partition_count
    for replicas in placed:
        assert len(set(replicas)) == replication_factor
        assert takers.issuperset(replicas)
        assert closeness(brokers, replicas) == possible
    assert place(brokers[::-1], partition_count, replication_factor) == placed


@settings(max_examples=100)
@given(broker_count=st.integers(1, 9), partition_count=st.integers(1, 60), data=st.data())
def test_leaders_and_replicas_of_a_topic_are_even(broker_count: int, partition_count: int, data: st.DataObject) -> None:
    loads = st.tuples(st.integers(0, 500), st.integers(0, 200))
    brokers = [
        replace(broker, replicas=replicas, leaders=leaders)
        for broker in flat(broker_count)
        for replicas, leaders in [data.draw(loads)]
    ]
    placed = place(brokers, partition_count, data.draw(st.integers(1, min(broker_count, 4))))
    assert spread(leader_counts(placed), brokers) <= 1
    assert spread(replica_counts(placed), brokers) <= 2


@pytest.mark.parametrize("rack_count", [2, 3, 4])
@pytest.mark.parametrize("partition_count", [1, 12, 40, 100])
def test_racks_of_one_size_do_not_make_it_uneven(rack_count: int, partition_count: int) -> None:
    brokers = [replace(broker, rack=f"rack-{broker.node_id % rack_count}") for broker in flat(12)]
    placed = place(brokers, partition_count, 3)
    assert spread(leader_counts(placed), brokers) <= 1
    assert spread(replica_counts(placed), brokers) <= 2


@pytest.mark.parametrize(("partition_count", "replication_factor"), [(1, 1), (1, 3), (3, 2), (4, 3), (8, 3)])
def test_many_small_topics_are_even_together(partition_count: int, replication_factor: int) -> None:
    brokers = flat(7)
    for _ in range(60):
        placed = place(brokers, partition_count, replication_factor)
        replicas, leaders = replica_counts(placed), leader_counts(placed)
        brokers = [
            replace(
                broker,
                replicas=broker.replicas + replicas[broker.node_id],
                leaders=broker.leaders + leaders[broker.node_id],
            )
            for broker in brokers
        ]
    assert spread(Counter({broker.node_id: broker.replicas for broker in brokers}), brokers) <= 2
    assert spread(Counter({broker.node_id: broker.leaders for broker in brokers}), brokers) <= 2


def test_a_new_broker_gets_its_part_of_a_topic_and_not_all_of_it() -> None:
    brokers = [*(replace(broker, replicas=1000, leaders=400) for broker in flat(3)), *flat(1, first=3)]
    assert leader_counts(place(brokers, 8, 2)) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert place(brokers, 1, 1) == [(3,)]


def test_partitions_that_are_added_even_out_what_the_topic_has() -> None:
    brokers = [replace(broker, replicas=100 * broker.node_id) for broker in flat(3)]
    so_far = [(0, 1), (0, 1)]
    added = place(brokers, 4, 2, placed=so_far)
    assert leader_counts([*so_far, *added]) == {0: 2, 1: 2, 2: 2}
    assert replica_counts([*so_far, *added]) == {0: 4, 1: 4, 2: 4}


def test_the_leaders_of_a_broker_that_fails_go_to_many_others() -> None:
    placed = place(flat(6), 60, 3)
    for failed in range(6):
        heirs = Counter(replicas[1] for replicas in placed if replicas[0] == failed)
        assert len(heirs) >= 4


def test_little_free_disk_gets_few_replicas_and_next_to_none_gets_none() -> None:
    free = {0: 110 * GIB, 1: 100 * GIB, 2: 25 * GIB, 3: 5 * GIB, 4: None}
    brokers = [replace(broker, free_bytes=free[broker.node_id]) for broker in flat(5)]
    counts = replica_counts(place(brokers, 35, 2))
    assert counts == {0: 20, 1: 20, 2: 10, 4: 20}
    assert replica_counts(place(brokers, 5, 5)) == {0: 5, 1: 5, 2: 5, 3: 5, 4: 5}, "there is no choice"


def test_racks_are_kept_apart_even_if_a_disk_is_short() -> None:
    brokers = [
        Broker(0, "m0", "a", free_bytes=100 * GIB),
        Broker(1, "m1", "a", free_bytes=100 * GIB),
        Broker(2, "m2", "b", free_bytes=GIB),
    ]
    assert all(2 in replicas for replicas in place(brokers, 6, 2))


def test_full_disks_everywhere_are_no_reason_to_prefer_anyone() -> None:
    brokers = [replace(broker, free_bytes=0) for broker in flat(3)]
    assert replica_counts(place(brokers, 6, 1)) == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize(
    ("replication_factor", "text"),
    [
        (5, "replication factor 5: there are 4 live brokers, 1 of them being drained"),
        (4, "replication factor 4: there are 4 live brokers, 1 of them being drained"),
        (0, "replication factor 0: at least 1 is needed"),
        (-1, "replication factor -1: at least 1 is needed"),
    ],
)
def test_a_replication_factor_beyond_the_brokers_is_refused(replication_factor: int, text: str) -> None:
    brokers = [replace(broker, live=broker.node_id != 1, draining=broker.node_id == 2) for broker in flat(5)]
    with pytest.raises(PenstockError) as refused:
        place(brokers, 1, replication_factor)
    assert refused.value.problem is Problem.INVALID_REPLICATION_FACTOR
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ({}, "the assignment names no partition"),
        ({0: [0], 2: [0]}, "partitions must be numbered from 0 without gaps: 1 is missing"),
        ({1: [0]}, "partitions must be numbered from 0 without gaps: 0 is missing"),
        ({-1: [0], 0: [0]}, "partitions must be numbered from 0 without gaps: 1 is missing"),
        ({0: []}, "partition 0 has no replicas: at least one is needed"),
        ({0: [0, 3, 0]}, "partition 0 names broker 0 twice"),
        ({0: [0], 1: [7]}, "partition 1 names broker 7, which does not exist"),
        ({0: [1]}, "partition 0 names broker 1, which is not running"),
        ({0: [2]}, "partition 0 names broker 2, which is being drained"),
        ({0: [0, 3], 1: [0]}, "partition 1 has 1 replicas, the others 2: all need the same number"),
    ],
)
def test_assignments_by_hand_that_cannot_be(assignment: dict[int, list[int]], text: str) -> None:
    brokers = [replace(broker, live=broker.node_id != 1, draining=broker.node_id == 2) for broker in flat(4)]
    with pytest.raises(PenstockError) as refused:
        check_assignment(brokers, assignment)
    assert refused.value.problem is Problem.INVALID_REPLICA_ASSIGNMENT
    assert str(refused.value) == text


def test_assignments_by_hand_for_partitions_that_are_added() -> None:
    check_assignment(flat(3), {4: [2, 0], 5: [1, 2]}, first_partition=4, replication_factor=2)
    with pytest.raises(PenstockError, match="partition 4 has 1 replicas, the others 2"):
        check_assignment(flat(3), {4: [2]}, first_partition=4, replication_factor=2)
    with pytest.raises(PenstockError, match="from 4 without gaps: 4 is missing"):
        check_assignment(flat(3), {0: [2]}, first_partition=4)


def test_a_reassignment_may_keep_what_is_down_and_add_only_what_is_up() -> None:
    brokers = [replace(broker, live=broker.node_id != 1, draining=broker.node_id == 2) for broker in flat(4)]
    check_reassignment(brokers, current=(1, 2, 9), wanted=(9, 2, 1, 0))
    for wanted, text in (
        ([0, 1], "names broker 1, which is not running"),
        ([0, 2], "names broker 2, which is being drained"),
        ([0, 9], "names broker 9, which does not exist"),
        ([0, 0], "names broker 0 twice"),
        ([], "has no replicas"),
    ):
        with pytest.raises(PenstockError, match=text) as refused:
            check_reassignment(brokers, current=(0,), wanted=wanted)
        assert refused.value.problem is Problem.INVALID_REPLICA_ASSIGNMENT
