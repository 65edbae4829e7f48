"""Even leaders by another order of replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.planning import applied, check_rules, flat, fleets, placed_at_random, placed_evenly, taking

from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.leader_balance import balance_leaders
from penstock.cluster.core.plan import PlacedPartition


def unevenness(leaders: Iterable[int], takers: set[int]) -> int:
    counts = Counter(leaders)
    return sum(counts[node_id] ** 2 for node_id in takers)


@settings(max_examples=150)
@given(data=st.data(), brokers=fleets())
def test_only_the_order_changes(data: st.DataObject, brokers: list[Broker]) -> None:
    partitions = data.draw(placed_at_random(brokers))
    plan = check_rules(balance_leaders, brokers, partitions)
    takers = taking(brokers)
    for move in plan.moves:
        assert sorted(move.before) == sorted(move.replicas)
        assert {move.before[0], move.replicas[0]} <= takers
    assert plan.size_bytes == 0


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), partition_count=st.integers(0, 6))
def test_no_order_is_more_even(seed: int, partition_count: int) -> None:
    numbers = Random(seed)
    replicas = [numbers.sample(range(4), numbers.randint(1, 3)) for _ in range(partition_count)]
    partitions = [PlacedPartition("topic", number, tuple(ids), tuple(ids)) for number, ids in enumerate(replicas)]
    takers = set(range(4))
    least_uneven, fewest_changes = min(
        (unevenness(leaders, takers), sum(leader != ids[0] for leader, ids in zip(leaders, replicas, strict=True)))
        for leaders in product(*replicas)
    )
    plan = balance_leaders(flat(4), partitions)
    assert unevenness((each.replicas[0] for each in applied(partitions, plan)), takers) == least_uneven
    assert len(plan.moves) <= fewest_changes + 1


@pytest.mark.parametrize("seed", range(5))
def test_only_as_many_change_as_are_too_many_somewhere(seed: int) -> None:
    numbers = Random(seed)
    partitions = [
        replace(each, replicas=tuple(numbers.sample(each.replicas, 3)))
        for each in placed_evenly(flat(6), 120, 3, lambda _: 1)
    ]
    leaders = Counter(each.replicas[0] for each in partitions)
    plan = balance_leaders(flat(6), partitions)
    assert [change.after.leaders for change in plan.brokers] == [20] * 6
    assert len(plan.moves) == sum(max(0, count - 20) for count in leaders.values())


def test_leaders_come_back_to_a_broker_that_has_none() -> None:
    partitions = [
        replace(each, replicas=tuple(sorted(each.replicas, reverse=True)))
        for each in placed_evenly(flat(4), 40, 2, lambda _: 1)
    ]
    assert not any(each.replicas[0] == 0 for each in partitions)
    plan = balance_leaders(flat(4), partitions)
    assert [change.after.leaders for change in plan.brokers] == [10, 10, 10, 10]
