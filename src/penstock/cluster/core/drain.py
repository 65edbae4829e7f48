"""Emptying a broker: all of its replicas to others, or a refusal that names what would be harmed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.layout import Layout
from penstock.cluster.core.leader_balance import even_leaders
from penstock.cluster.core.plan import PlacedPartition, Plan, Unmoved
from penstock.errors import PenstockError, Problem

# Partitions that a refusal names in its text; it has all of them as values.
_NAMED = 5


class DrainRefused(PenstockError):
    """Nothing was planned; `unmoved` has every partition that stands in the way."""

    def __init__(self, node_id: int, unmoved: Sequence[Unmoved]) -> None:
        named = "; ".join(map(str, unmoved[:_NAMED]))
        more = f"; and {len(unmoved) - _NAMED} more" if len(unmoved) > _NAMED else ""
        text = f"broker {node_id} cannot be drained: {named}{more}"
        super().__init__(Problem.INVALID_REPLICA_ASSIGNMENT, text)
        self.unmoved = tuple(unmoved)


def drain(brokers: Iterable[Broker], partitions: Iterable[PlacedPartition], node_id: int) -> Plan:
    """Every replica of this broker to one that lives and is not draining, the largest first.

    Each goes where it is furthest from its partition's other replicas (racks, then machines), then to the broker with
    the least bytes, less of them the shorter its disk is. The plan's `waiting` has partitions that come to the broker,
    or stay there, by a reassignment under way. Raises DrainRefused, and PenstockError INVALID_REQUEST for a broker
    that does not exist.
    """
    layout = Layout(brokers, partitions)
    if node_id not in layout.fleet.brokers:
        raise PenstockError(Problem.INVALID_REQUEST, f"broker {node_id} does not exist")
    here = [index for index, replicas in enumerate(layout.replicas) if node_id in replicas]
    here.sort(key=lambda index: (-layout.partitions[index].size_bytes, index))
    waiting, unmoved = [], []
    for index in here:
        partition = layout.partitions[index]
        if partition.moving:
            waiting.append(_unmoved(partition, "a reassignment is under way"))
        elif reason := _harm(layout, index, node_id) or _move_away(layout, index, node_id):
            unmoved.append(_unmoved(partition, reason))
    if unmoved:
        raise DrainRefused(node_id, sorted(unmoved, key=lambda each: (each.topic, each.partition)))
    even_leaders(layout, layout.changed(), range(len(layout.partitions)))
    return layout.plan(waiting)


def _harm(layout: Layout, index: int, node_id: int) -> str:
    """Why the partition must keep this replica; empty if it need not."""
    partition, fleet = layout.partitions[index], layout.fleet
    in_sync = [member for member in partition.isr if fleet.is_live(member)]
    if not in_sync:
        return "none of its live replicas is in sync, so there is nothing to copy it from"
    # The replica that comes is in sync before this one goes.
    left = 1 + sum(member != node_id for member in in_sync)
    needed = min(partition.min_isr, len(partition.replicas))
    if left < needed:
        return f"{left} replicas would be left in sync, min.insync.replicas is {partition.min_isr}"
    return ""


def _move_away(layout: Layout, index: int, node_id: int) -> str:
    """Why there is no place for it; empty if it moved."""
    fleet, partition = layout.fleet, layout.partitions[index]
    others = [other for other in layout.replicas[index] if other != node_id]
    takers = [taker for taker in fleet.takers if taker != node_id and taker not in others]
    if not takers:
        factor, rest = len(others) + 1, len(fleet.takers) - (node_id in fleet.takers)
        return f"its replication factor is {factor}, and {rest} other brokers can hold replicas"
    takers = [taker for taker in takers if layout.has_room(taker, index)]
    if not takers:
        return f"no other broker has room for its {partition.size_bytes} bytes"

    def order(taker: int) -> tuple[tuple[int, int], bool, float, float, int]:
        size = (layout.bytes_on[taker] + partition.size_bytes) / fleet.weight(taker)
        count = (layout.replicas_on[taker] + 1) / fleet.weight(taker)
        loads = (size, count) if partition.size_bytes else (count, size)
        return fleet.crowding(fleet.domain(taker), others), fleet.is_tight(taker), *loads, taker

    layout.replace(index, node_id, min(takers, key=order))
    return ""


def _unmoved(partition: PlacedPartition, reason: str) -> Unmoved:
    return Unmoved(partition.topic, partition.partition, reason)
