"""Moves for brokers that joined, loads that grew apart and internal topics with too few replicas."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.planning import (
    applied,
    check_no_closer,
    check_rules,
    closeness,
    flat,
    fleets,
    holdings,
    placed_at_random,
    placed_evenly,
    taking,
)

from penstock.cluster.core.drain import drain
from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.moves import fair_share, raise_replication, rebalance
from penstock.cluster.core.plan import PlacedPartition, Plan
from penstock.errors import PenstockError, Problem
from penstock.units import GIB


def bytes_after(plan: Plan) -> dict[int, int]:
    return {change.node_id: change.after.size_bytes for change in plan.brokers}


@settings(max_examples=120)
@given(data=st.data(), brokers=fleets(least=2))
def test_what_joins_takes_no_more_than_its_share(data: st.DataObject, brokers: list[Broker]) -> None:
    partitions = data.draw(placed_at_random(brokers))
    joined = data.draw(st.sets(st.integers(0, len(brokers) - 1)))
    plan = check_rules(lambda those, these: fair_share(those, these, joined), brokers, partitions)
    check_no_closer(brokers, plan)
    takers = taking(brokers)
    before, after = holdings(brokers, partitions), bytes_after(plan)
    share = sum(before[node_id].size_bytes for node_id in takers) / max(len(takers), 1)
    for move in plan.moves:
        assert joined.issuperset(move.adding)
        assert joined.isdisjoint(move.removing)
        assert len(move.replicas) == len(move.before)
    for node_id in joined:
        assert after[node_id] <= max(share, before[node_id].size_bytes)


@settings(max_examples=100)
@given(
    broker_count=st.integers(2, 9),
    partition_count=st.integers(1, 80),
    largest=st.sampled_from([1, 10, 1000]),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_a_new_broker_gets_close_to_its_share_of_the_bytes(
    broker_count: int, partition_count: int, largest: int, seed: int, data: st.DataObject
) -> None:
    numbers = Random(seed)
    brokers, old = flat(broker_count), flat(broker_count - 1)
    partitions = placed_evenly(
        old, partition_count, data.draw(st.integers(1, min(3, len(old)))), lambda _: numbers.randint(1, largest)
    )
    newest = broker_count - 1
    plan = fair_share(brokers, partitions, {newest})
    total = sum(holding.size_bytes for holding in holdings(brokers, partitions).values())
    heaviest = max(partition.size_bytes for partition in partitions)
    assert plan.size_bytes == bytes_after(plan)[newest]
    assert plan.size_bytes <= total / broker_count
    assert plan.size_bytes > total / broker_count - heaviest


def test_a_fourth_broker_takes_a_quarter_and_gives_it_back() -> None:
    numbers = Random(4)
    partitions = placed_evenly(flat(3), 300, 3, lambda _: numbers.randint(1, 2000))
    total = 3 * sum(partition.size_bytes for partition in partitions)
    plan = fair_share(flat(4), partitions, {3})
    assert 0.245 * total < plan.size_bytes <= 0.25 * total
    newest = plan.brokers[3].after
    assert 200 < newest.replicas < 250, "its share of the replicas, not the few largest"
    assert 70 <= newest.leaders <= 80
    returned = drain(flat(4), applied(partitions, plan), 3)
    assert returned.size_bytes == plan.size_bytes
    assert bytes_after(returned)[3] == 0
    assert max(bytes_after(returned).values()) <= 1.01 * total / 3


def test_partitions_of_unknown_size_are_shared_by_their_number() -> None:
    partitions = [
        *placed_evenly(flat(3), 30, 1, lambda _: 0),
        *(replace(each, topic="large") for each in placed_evenly(flat(3), 12, 1, lambda _: 100)),
    ]
    plan = fair_share(flat(4), partitions, {3})
    assert Counter(move.topic for move in plan.moves) == {"topic": 7, "large": 3}
    assert plan.size_bytes == 300


def test_a_broker_in_a_rack_of_two_shares_with_its_rack_alone() -> None:
    brokers = [replace(broker, rack=rack) for broker, rack in zip(flat(4), "abcc", strict=True)]
    partitions = placed_evenly(brokers[:3], 40, 3, lambda _: 10)
    plan = fair_share(brokers, partitions, {3})
    assert bytes_after(plan) == {0: 400, 1: 400, 2: 200, 3: 200}


def test_less_than_a_share_is_not_made_of_many_small_partitions() -> None:
    brokers = [replace(broker, rack=f"rack-{broker.node_id % 3}") for broker in flat(7)]
    numbers = Random(3)
    partitions = placed_evenly(brokers[:6], 300, 3, lambda _: numbers.randint(1, 1000))
    newest = fair_share(brokers, partitions, {6}).brokers[6].after
    in_rack = sum(partition.size_bytes for partition in partitions)
    assert 0.32 * in_rack < newest.size_bytes < 0.34 * in_rack, "three brokers share what is in their rack"
    assert 90 <= newest.replicas <= 110


def test_what_another_move_has_made_possible_is_part_of_the_same_plan() -> None:
    """Broker 0 can give nothing to 1 before the other replica has left 1's rack."""
    brokers = [replace(broker, rack=rack) for broker, rack in zip(flat(5), "abbcc", strict=True)]
    partitions = [
        PlacedPartition("topic", number, replicas, replicas, size_bytes)
        for number, (replicas, size_bytes) in enumerate(
            [((2, 0), 5), ((0, 2), 6), ((2, 0), 1), ((0, 2), 4), ((0, 2), 7), ((0, 2), 9)]
        )
    ]
    for planning in (rebalance, lambda those, these: fair_share(those, these, {1, 3, 4})):
        check_no_closer(brokers, check_rules(planning, brokers, partitions))


@pytest.mark.parametrize(
    ("most_brokers", "most_machines", "most_racks"), [(10, 8, 4), (30, 25, 4), (30, 25, 25)], ids=str
)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_larger_clusters_are_done_when_they_are_done(
    most_brokers: int, most_machines: int, most_racks: int, seed: int
) -> None:
    numbers = Random(seed)
    rack_count, machine_count = numbers.randint(1, most_racks), numbers.randint(3, most_machines)
    machines = [numbers.randrange(machine_count) for _ in range(numbers.randint(4, most_brokers))]
    brokers = [
        Broker(node_id, f"machine-{machine}", f"rack-{machine % rack_count}")
        for node_id, machine in enumerate(machines)
    ]
    partitions = []
    for number in range(40):
        replicas = tuple(numbers.sample(range(len(brokers)), numbers.randint(1, 4)))
        partitions.append(PlacedPartition("topic", number, replicas, replicas, numbers.randint(1, 100)))
    check_no_closer(brokers, check_rules(rebalance, brokers, partitions))
    joined = set(numbers.sample(range(len(brokers)), len(brokers) // 2))
    check_no_closer(brokers, check_rules(lambda those, these: fair_share(those, these, joined), brokers, partitions))


def test_dead_and_draining_brokers_neither_give_nor_take() -> None:
    brokers = flat(5)
    partitions = placed_evenly(brokers[:4], 40, 1, lambda _: 10)
    brokers[0], brokers[1] = replace(brokers[0], live=False), replace(brokers[1], draining=True)
    plan = fair_share(brokers, partitions, {4})
    # Partitions whose only replica is on the dead broker cannot be copied, and count for nobody.
    assert bytes_after(plan) == {0: 100, 1: 100, 2: 70, 3: 70, 4: 60}
    assert fair_share(brokers, partitions, {0, 1}).moves == ()


def test_no_more_goes_to_a_broker_than_its_disk_has_room_for() -> None:
    brokers = [*flat(3), replace(flat(4)[3], free_bytes=GIB)]
    partitions = placed_evenly(brokers[:3], 80, 1, lambda _: GIB // 10)
    plan = fair_share(brokers, partitions, {3})
    assert len(plan.moves) == 9
    assert rebalance(brokers, partitions).size_bytes <= 0.9 * GIB


def test_a_broker_that_nobody_knows_cannot_have_joined() -> None:
    with pytest.raises(PenstockError, match="broker 7 does not exist") as refused:
        fair_share(flat(3), [], {7})
    assert refused.value.problem is Problem.INVALID_REQUEST


@settings(max_examples=120)
@given(data=st.data(), brokers=fleets())
def test_rebalancing_makes_nothing_worse(data: st.DataObject, brokers: list[Broker]) -> None:
    partitions = data.draw(placed_at_random(brokers))
    plan = check_rules(rebalance, brokers, partitions)
    check_no_closer(brokers, plan)
    takers = taking(brokers)
    before, after = holdings(brokers, partitions), bytes_after(plan)
    for move in plan.moves:
        assert takers.issuperset(move.removing)
        assert len(move.replicas) == len(move.before)
    assert sum(after[node_id] ** 2 for node_id in takers) <= sum(before[node_id].size_bytes ** 2 for node_id in takers)


@settings(max_examples=60)
@given(broker_count=st.integers(2, 8), seed=st.integers(0, 10_000), replication_factor=st.integers(1, 2))
def test_rebalancing_ends_within_a_tenth_and_moves_only_what_is_too_much(
    broker_count: int, seed: int, replication_factor: int
) -> None:
    """Partitions are small enough here that a tenth can always be reached."""
    numbers = Random(seed)
    brokers = flat(broker_count)
    favourites = [numbers.randint(1, 10) for _ in brokers]
    partitions = []
    for number in range(60 * broker_count):
        node_ids = numbers.choices(range(broker_count), favourites, k=20)
        replicas = tuple(dict.fromkeys(node_ids))[:replication_factor]
        partitions.append(PlacedPartition("topic", number, replicas, replicas, numbers.randint(1, 10)))
    plan = check_rules(rebalance, brokers, partitions)
    before = [holding.size_bytes for holding in holdings(brokers, partitions).values()]
    mean = sum(before) / broker_count
    # With two replicas on two brokers nothing can move at all.
    if replication_factor < broker_count:
        assert all(0.9 * mean <= size_bytes <= 1.1 * mean for size_bytes in bytes_after(plan).values())
    assert plan.size_bytes <= sum(max(0, size_bytes - mean) for size_bytes in before)


def test_what_is_within_a_tenth_stays() -> None:
    sizes = {0: 109, 1: 100, 2: 91}
    partitions = [
        PlacedPartition("topic", 10 * node_id + number, (node_id,), (node_id,), size_bytes)
        for node_id, total in sizes.items()
        for number, size_bytes in enumerate([1] * 9 + [total - 9])
    ]
    assert rebalance(flat(3), partitions).moves == ()
    assert rebalance(flat(3), partitions, tolerance=0.05).size_bytes == 4


def by_broker(*sizes: list[int]) -> list[PlacedPartition]:
    """Partitions with one replica and these sizes, on broker 0, 1 and so on."""
    return [
        PlacedPartition(f"topic-{node_id}", number, (node_id,), (node_id,), size_bytes)
        for node_id, row in enumerate(sizes)
        for number, size_bytes in enumerate(row)
    ]


def test_the_least_that_suffices_is_moved() -> None:
    partitions = by_broker([102, 5, 3, 2], [91, 1, 1, 1], [91, 1, 1, 1])
    assert rebalance(flat(3), partitions).size_bytes == 2


def test_what_would_only_trade_places_stays() -> None:
    assert rebalance(flat(2), by_broker([85, 35], [80])).moves == ()
    assert rebalance(flat(2), by_broker([90, 30], [80])).size_bytes == 30


def test_a_giant_stays_and_nobody_is_moved_for_it_in_vain() -> None:
    partitions = by_broker([10_000, 40, 60], [100], [50, 50], [10])
    plan = rebalance(flat(4), partitions)
    assert [(move.topic, move.partition) for move in plan.moves] == [("topic-0", 1), ("topic-0", 2)]
    assert bytes_after(plan)[0] == 10_000
    assert rebalance(flat(4), by_broker([10_000], [100], [50, 50], [10])).moves == ()


@settings(max_examples=150)
@given(data=st.data(), brokers=fleets())
def test_internal_topics_grow_and_keep_the_replicas_they_have(data: st.DataObject, brokers: list[Broker]) -> None:
    partitions = data.draw(placed_at_random(brokers))
    plan = check_rules(lambda those, these: raise_replication(those, these, {"x", "y"}), brokers, partitions)
    takers = taking(brokers)
    for move in plan.moves:
        assert move.topic in ("x", "y")
        assert set(move.replicas) > set(move.before)
        assert len(move.replicas) == min(3, len(takers.union(move.before)))
    grown = {(move.topic, move.partition) for move in plan.moves}
    live = {broker.node_id for broker in brokers if broker.live}
    for partition in partitions:
        if partition.topic in ("x", "y") and (partition.topic, partition.partition) not in grown:
            can_move = not partition.moving and live.intersection(partition.isr)
            assert not can_move or len(partition.replicas) >= 3 or takers.issubset(partition.replicas)


def test_an_internal_topic_follows_the_brokers_up_to_three() -> None:
    partitions = [PlacedPartition("__consumer_offsets", number, (0,), (0,)) for number in range(50)]
    partitions += [PlacedPartition("mine", number, (0,), (0,)) for number in range(100)]
    for broker_count, replication_factor in ((1, 1), (2, 2), (3, 3), (4, 3)):
        plan = raise_replication(flat(broker_count), partitions, {"__consumer_offsets"})
        partitions = applied(partitions, plan)
        offsets = [partition for partition in partitions if partition.topic == "__consumer_offsets"]
        assert {len(partition.replicas) for partition in offsets} == {replication_factor}
        leaders = Counter(partition.replicas[0] for partition in offsets)
        if plan.moves:
            assert max(leaders.values()) - min(leaders.values()) <= 1
            assert len(leaders) == broker_count
    assert all(partition.replicas == (0,) for partition in partitions if partition.topic == "mine")


def test_new_replicas_of_an_internal_topic_go_to_other_racks() -> None:
    brokers = [replace(broker, rack=rack) for broker, rack in zip(flat(5), "aaabc", strict=True)]
    partitions = [PlacedPartition("__consumer_offsets", number, (number % 3,), (number % 3,)) for number in range(9)]
    for move in raise_replication(brokers, partitions, {"__consumer_offsets"}).moves:
        assert closeness(brokers, move.replicas) == (0, 0)
