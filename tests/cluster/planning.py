"""Clusters to plan for, what a plan makes of them, and the rules that every plan keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

from hypothesis import strategies as st

from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.placement import place
from penstock.cluster.core.plan import Holding, PlacedPartition, Plan

Planning = Callable[[list[Broker], list[PlacedPartition]], Plan]


def flat(count: int, first: int = 0) -> list[Broker]:
    """Each on a machine of its own, no racks."""
    return [Broker(node_id, f"machine-{node_id}") for node_id in range(first, first + count)]


@st.composite
def fleets(draw: st.DrawFn, least: int = 1, most: int = 7, all_take: bool = False) -> list[Broker]:
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from([None, "a", "b", "c"]), st.integers(0, 4), st.integers(0, 9)),
            min_size=least,
            max_size=most,
        )
    )
    racked = draw(st.booleans())
    return [
        Broker(
            node_id,
            f"machine-{rack}-{machine}",
            rack if racked else None,
            live=all_take or state != 1,
            draining=not all_take and state == 2,
        )
        for node_id, (rack, machine, state) in enumerate(rows)
    ]


@st.composite
def placed_at_random(
    draw: st.DrawFn, brokers: Sequence[Broker], most: int = 25, largest: int = 50
) -> list[PlacedPartition]:
    """Replicas anywhere, in sync or not, sizes known or not, some on the move."""
    seed, count = draw(st.integers(0, 2**32)), draw(st.integers(0, most))
    random = Random(seed)
    node_ids = [broker.node_id for broker in brokers]
    partitions = []
    for number in range(count):
        replicas = tuple(random.sample(node_ids, random.randint(1, min(4, len(node_ids)))))
        partitions.append(
            PlacedPartition(
                random.choice("xyz"),
                number,
                replicas,
                isr=tuple(node_id for node_id in replicas if random.random() < 0.9),
                size_bytes=random.choice([0, random.randint(1, largest), random.randint(1, largest)]),
                min_isr=random.randint(1, 2),
                moving=random.random() < 0.1,
            )
        )
    return partitions


def placed_evenly(
    brokers: Sequence[Broker], count: int, replication_factor: int, sizes: Callable[[int], int]
) -> list[PlacedPartition]:
    return [
        PlacedPartition("topic", number, replicas, replicas, sizes(number))
        for number, replicas in enumerate(place(brokers, count, replication_factor))
    ]


def applied(partitions: Iterable[PlacedPartition], plan: Plan) -> list[PlacedPartition]:
    """When all moves are done and everyone who was added is in sync."""
    moves = {(move.topic, move.partition): move for move in plan.moves}
    after = []
    for partition in partitions:
        move = moves.get((partition.topic, partition.partition))
        if move is not None:
            isr = tuple(node_id for node_id in move.replicas if node_id in (*partition.isr, *move.adding))
            partition = replace(partition, replicas=move.replicas, isr=isr)
        after.append(partition)
    return after


def holdings(brokers: Iterable[Broker], partitions: Iterable[PlacedPartition]) -> dict[int, Holding]:
    replicas, leaders, size_bytes = Counter[int](), Counter[int](), Counter[int]()
    for partition in partitions:
        leaders[partition.replicas[0]] += 1
        for node_id in partition.replicas:
            replicas[node_id] += 1
            size_bytes[node_id] += partition.size_bytes
    return {
        broker.node_id: Holding(replicas[broker.node_id], leaders[broker.node_id], size_bytes[broker.node_id])
        for broker in brokers
    }


def taking(brokers: Iterable[Broker]) -> set[int]:
    return {broker.node_id for broker in brokers if broker.live and not broker.draining}


def closeness(brokers: Iterable[Broker], replicas: Iterable[int]) -> tuple[int, int]:
    """Pairs of replicas in one rack, and pairs on one machine: the fewer, the further apart."""
    known = {broker.node_id: broker for broker in brokers}
    pairs = list(combinations([known[node_id] for node_id in replicas], 2))
    return sum(a.rack == b.rack for a, b in pairs), sum(a.machine == b.machine for a, b in pairs)


def check_rules(planning: Planning, brokers: list[Broker], partitions: list[PlacedPartition]) -> Plan:
    """What holds for any plan: it is possible, says what it does, and is the same every time and done when done."""
    plan = planning(brokers, partitions)
    known = {(partition.topic, partition.partition): partition for partition in partitions}
    live = {broker.node_id for broker in brokers if broker.live}
    for move in plan.moves:
        partition = known[move.topic, move.partition]
        assert move.before == partition.replicas != move.replicas
        assert not partition.moving
        assert live.intersection(partition.isr), "nothing to copy it from"
        assert len(set(move.replicas)) == len(move.replicas) >= len(move.before)
        assert taking(brokers).issuperset(move.adding)
        assert move.size_bytes == partition.size_bytes * len(move.adding)
    assert [(move.topic, move.partition) for move in plan.moves] == sorted(
        (move.topic, move.partition) for move in plan.moves
    )
    assert {change.node_id: change.before for change in plan.brokers} == holdings(brokers, partitions)
    assert {change.node_id: change.after for change in plan.brokers} == holdings(brokers, applied(partitions, plan))
    assert plan.size_bytes == sum(move.size_bytes for move in plan.moves)
    assert planning(brokers[::-1], partitions[::-1]) == plan
    assert planning(brokers, applied(partitions, plan)).moves == ()
    return plan


def check_no_closer(brokers: list[Broker], plan: Plan) -> None:
    for move in plan.moves:
        assert closeness(brokers, move.replicas) <= closeness(brokers, move.before)
