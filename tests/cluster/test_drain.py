"""Emptying a broker, and when that is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.planning import (
    applied,
    check_rules,
    closeness,
    flat,
    fleets,
    placed_at_random,
    placed_evenly,
    taking,
)

from penstock.cluster.core.drain import DrainRefused, drain
from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.plan import PlacedPartition
from penstock.errors import PenstockError, Problem
from penstock.units import GIB


def has_no_place(brokers: list[Broker], partition: PlacedPartition, node_id: int) -> bool:
    others = set(partition.replicas) - {node_id}
    live = {broker.node_id for broker in brokers if broker.live}
    in_sync = live.intersection(partition.isr)
    too_few = len(in_sync - {node_id}) + 1 < min(partition.min_isr, len(partition.replicas))
    return not in_sync or too_few or not taking(brokers) - others - {node_id}


@settings(max_examples=120)
@given(data=st.data(), brokers=fleets())
def test_nothing_is_left_or_everything_in_the_way_is_named(data: st.DataObject, brokers: list[Broker]) -> None:
    partitions = data.draw(placed_at_random(brokers))
    node_id = data.draw(st.integers(0, len(brokers) - 1))
    here = [partition for partition in partitions if node_id in partition.replicas]
    stuck = {(each.topic, each.partition) for each in here if not each.moving and has_no_place(brokers, each, node_id)}
    if stuck:
        with pytest.raises(DrainRefused) as refused:
            drain(brokers, partitions, node_id)
        assert {(unmoved.topic, unmoved.partition) for unmoved in refused.value.unmoved} == stuck
        return
    plan = check_rules(lambda those, these: drain(those, these, node_id), brokers, partitions)
    waiting = {(unmoved.topic, unmoved.partition) for unmoved in plan.waiting}
    assert waiting == {(each.topic, each.partition) for each in here if each.moving}
    for partition in applied(partitions, plan):
        assert node_id not in partition.replicas or (partition.topic, partition.partition) in waiting
    for move in plan.moves:
        assert move.removing == (node_id,)
        others = set(move.before) - {node_id}
        possible = taking(brokers) - others - {node_id}
        assert closeness(brokers, move.replicas) == min(closeness(brokers, (*others, each)) for each in possible)


def test_what_leaves_is_spread_by_bytes_and_leaders_stay_even() -> None:
    partitions = placed_evenly(flat(5), 200, 2, lambda number: 1 + number % 17)
    plan = drain(flat(5), partitions, 4)
    after = [change.after for change in plan.brokers[:4]]
    mean = sum(holding.size_bytes for holding in after) / 4
    assert all(abs(holding.size_bytes - mean) <= 0.02 * mean for holding in after)
    assert max(holding.leaders for holding in after) - min(holding.leaders for holding in after) <= 1


def test_empty_partitions_do_not_all_go_to_the_broker_with_the_fewest_bytes() -> None:
    partitions = [
        *(PlacedPartition("empty", number, (0,), (0,)) for number in range(10)),
        PlacedPartition("large", 0, (1,), (1,), GIB),
    ]
    after = [change.after.replicas for change in drain(flat(3), partitions, 0).brokers]
    assert after == [0, 5, 6]


def test_a_short_disk_gets_less_and_a_full_one_nothing() -> None:
    free = {0: 90 * GIB, 1: 100 * GIB, 2: 22 * GIB, 3: 0}
    brokers = [replace(broker, free_bytes=free[broker.node_id]) for broker in flat(4)]
    partitions = [PlacedPartition("topic", number, (0,), (0,), GIB) for number in range(30)]
    after = {change.node_id: change.after.replicas for change in drain(brokers, partitions, 0).brokers}
    assert after == {0: 0, 1: 20, 2: 10, 3: 0}


def test_a_dead_broker_is_drained_from_its_other_replicas() -> None:
    brokers = [replace(flat(1)[0], live=False), *flat(3, first=1)]
    partitions = [PlacedPartition("topic", 0, (0, 1, 2), (1, 2), 10, min_isr=2)]
    assert drain(brokers, partitions, 0).moves[0].adding == (3,)
    lost = [PlacedPartition("topic", 0, (0,), (0,), 10)]
    with pytest.raises(DrainRefused, match="topic-0: none of its live replicas is in sync"):
        drain(brokers, lost, 0)


@pytest.mark.parametrize(
    ("broker_count", "isr", "text"),
    [
        (3, (0, 1, 2), "topic-0: its replication factor is 3, and 2 other brokers can hold replicas"),
        (4, (0,), "topic-0: 1 replicas would be left in sync, min.insync.replicas is 2"),
        (4, (), "topic-0: none of its live replicas is in sync, so there is nothing to copy it from"),
    ],
)
def test_a_drain_that_would_do_harm_is_refused(broker_count: int, isr: tuple[int, ...], text: str) -> None:
    partitions = [PlacedPartition("topic", 0, (0, 1, 2), isr, 10, min_isr=2)]
    with pytest.raises(DrainRefused) as refused:
        drain(flat(broker_count), partitions, 0)
    assert refused.value.problem is Problem.INVALID_REPLICA_ASSIGNMENT
    assert str(refused.value) == f"broker 0 cannot be drained: {text}"


def test_a_drain_without_room_elsewhere_is_refused() -> None:
    brokers = [replace(broker, free_bytes=GIB) for broker in flat(3)]
    partitions = [PlacedPartition("topic", number, (0,), (0,), GIB // 2) for number in range(3)]
    with pytest.raises(DrainRefused, match=f"topic-2: no other broker has room for its {GIB // 2} bytes"):
        drain(brokers, partitions, 0)


def test_a_long_refusal_names_a_few_and_counts_the_rest() -> None:
    partitions = [PlacedPartition("topic", number, (0, 1), (0, 1)) for number in range(9)]
    with pytest.raises(DrainRefused) as refused:
        drain(flat(2), partitions, 0)
    assert len(refused.value.unmoved) == 9
    assert str(refused.value).count("replication factor") == 5
    assert str(refused.value).endswith("; and 4 more")


def test_a_broker_that_nobody_knows_cannot_be_drained() -> None:
    with pytest.raises(PenstockError, match="broker 7 does not exist") as refused:
        drain(flat(3), [], 7)
    assert refused.value.problem is Problem.INVALID_REQUEST
