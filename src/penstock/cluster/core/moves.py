"""Plans of moves for brokers that joined and for loads that grew apart, with the least copying.

All of them keep the replicas of a partition at least as far apart (racks, then machines) as they are, leave alone what
a reassignment moves already or nothing in sync could be copied from, and give the leaders of what they move evenly.
Dead and draining brokers neither give nor take. Planning again when a plan is done gives an empty one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import ceil, floor

from penstock.cluster.core.evening import Evening, Wanted
from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.layout import Layout
from penstock.cluster.core.leader_balance import even_leaders
from penstock.cluster.core.plan import PlacedPartition, Plan
from penstock.errors import PenstockError, Problem

# Evening out further costs more copying than it helps.
REBALANCE_TOLERANCE = 0.1
# Internal topics hold what clients committed: they survive the loss of a broker even while another restarts.
INTERNAL_REPLICATION_FACTOR = 3


def fair_share(brokers: Iterable[Broker], partitions: Iterable[PlacedPartition], joined: Collection[int]) -> Plan:
    """To each broker that joined close to its share of all bytes, and no more; nothing between the others.

    Raises PenstockError INVALID_REQUEST for a broker that does not exist.
    """
    layout = Layout(brokers, partitions)
    for node_id in sorted(joined):
        if node_id not in layout.fleet.brokers:
            raise PenstockError(Problem.INVALID_REQUEST, f"broker {node_id} does not exist")
    takers = [node_id for node_id in layout.fleet.takers if node_id in joined]
    givers = [node_id for node_id in layout.fleet.takers if node_id not in joined]
    if takers and givers:
        for weights in _weighings(layout):
            evening = Evening(layout, weights, givers, takers)
            evening.run(_UpToShare(evening.mean))
    return _with_even_leaders(layout)


def rebalance(
    brokers: Iterable[Broker], partitions: Iterable[PlacedPartition], tolerance: float = REBALANCE_TOLERANCE
) -> Plan:
    """Until every broker is within `tolerance` of the mean, or no move of a replica brings it closer."""
    layout = Layout(brokers, partitions)
    if layout.fleet.takers:
        for weights in _weighings(layout):
            evening = Evening(layout, weights, layout.fleet.takers, layout.fleet.takers)
            evening.run(_Within.of(evening.mean, tolerance))
    return _with_even_leaders(layout)


def raise_replication(
    brokers: Iterable[Broker],
    partitions: Iterable[PlacedPartition],
    topics: Collection[str],
    replication_factor: int = INTERNAL_REPLICATION_FACTOR,
) -> Plan:
    """More replicas for the partitions of these topics, up to `replication_factor` as far as there are brokers.

    The replicas that there are stay; each topic's leaders become even over the brokers.
    """
    layout = Layout(brokers, partitions)
    grown: dict[str, list[int]] = defaultdict(list)
    for index in layout.movable():
        topic = layout.partitions[index].topic
        if topic in topics and _add_replicas(layout, index, replication_factor):
            grown[topic].append(index)
    for topic, indexes in grown.items():
        counted = [index for index, partition in enumerate(layout.partitions) if partition.topic == topic]
        even_leaders(layout, indexes, counted)
    return layout.plan()


def _add_replicas(layout: Layout, index: int, replication_factor: int) -> bool:
    """Whether some were missing and there was a broker for at least one."""
    fleet, replicas = layout.fleet, layout.replicas[index]

    def order(node_id: int) -> tuple[tuple[int, int], bool, float, int]:
        load = (layout.replicas_on[node_id] + 1) / fleet.weight(node_id)
        return fleet.crowding(fleet.domain(node_id), replicas), fleet.is_tight(node_id), load, node_id

    while len(replicas) < replication_factor:
        candidates = (
            node_id for node_id in fleet.takers if node_id not in replicas and layout.has_room(node_id, index)
        )
        best = min(candidates, key=order, default=None)
        if best is None:
            break
        layout.add(index, best)
    return len(replicas) > len(layout.partitions[index].replicas)


def _with_even_leaders(layout: Layout) -> Plan:
    """Only among what moves anyway: the other partitions' leaders are `balance_leaders`' business."""
    even_leaders(layout, layout.changed(), range(len(layout.partitions)))
    return layout.plan()


def _weighings(layout: Layout) -> tuple[list[int], list[int]]:
    """Bytes where they are known; then the partitions without, by number. Neither kind moves for the other's sake."""
    sizes = [partition.size_bytes for partition in layout.partitions]
    return sizes, [int(size_bytes == 0) for size_bytes in sizes]


@dataclass(frozen=True, slots=True)
class _UpToShare:
    share: float

    def wanted(self, giver_load: int, taker_load: int, replicas_apart: int) -> Wanted | None:
        missing = self.share - taker_load
        if missing <= 0:
            return None
        limit = min(missing, giver_load - self.share)
        cap = min(missing, giver_load - taker_load - 1)
        return Wanted(_typical(giver_load - taker_load, replicas_apart), limit, cap)


@dataclass(frozen=True, slots=True)
class _Within:
    mean: float
    lower: float
    upper: float

    @classmethod
    def of(cls, mean: float, tolerance: float) -> _Within:
        """Nobody can hold half a partition, or half a byte."""
        return cls(mean, min(mean * (1 - tolerance), floor(mean)), max(mean * (1 + tolerance), ceil(mean)))

    def wanted(self, giver_load: int, taker_load: int, replicas_apart: int) -> Wanted | None:
        if giver_load <= self.upper and taker_load >= self.lower:
            return None
        enough = max(giver_load - self.upper, self.lower - taker_load)
        limit = min(giver_load - self.mean, self.mean - taker_load)
        apart = giver_load - taker_load
        # Leaves at most half of the distance between the two: less gain is not worth the copying.
        cap = apart * 0.75
        if apart <= self.upper - self.lower:
            # As close together as they need to be: what the one is over or short may go, if the other stays within.
            cap = min(cap, self.upper - taker_load if giver_load > self.upper else giver_load - self.lower)
        return Wanted(min(enough, _typical(apart, replicas_apart)), limit, cap)


def _typical(loads_apart: int, replicas_apart: int) -> float:
    """The weight with which loads and numbers of replicas come together at the same time."""
    return loads_apart / max(replicas_apart, 1)
