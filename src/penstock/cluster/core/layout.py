"""Which broker holds what, while a plan is made: every step of a plan changes it, and the plan is the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.cluster.core.fleet import Broker, Domain, Fleet
from penstock.cluster.core.plan import BrokerChange, Holding, Move, PlacedPartition, Plan, Unmoved

# Of a broker's free disk, how much moves may take: producers go on writing while they run.
_ROOM_SHARE = 0.9


class Layout:
    """Partitions are named by their position in `partitions`, which is sorted: no plan depends on the order given."""

    def __init__(self, brokers: Iterable[Broker], partitions: Iterable[PlacedPartition]) -> None:
        self.fleet = Fleet(brokers)
        self.partitions = sorted(partitions, key=lambda partition: (partition.topic, partition.partition))
        self.replicas = [list(partition.replicas) for partition in self.partitions]
        self._before = _holdings(self.fleet, self.partitions, self.replicas)
        self.bytes_on = {node_id: holding.size_bytes for node_id, holding in self._before.items()}
        self.replicas_on = {node_id: holding.replicas for node_id, holding in self._before.items()}
        self._room = {
            node_id: None if broker.free_bytes is None else int(broker.free_bytes * _ROOM_SHARE)
            for node_id, broker in self.fleet.brokers.items()
        }

    def movable(self) -> Iterator[int]:
        """Partitions that can be copied from somewhere and are not on their way already."""
        for index, partition in enumerate(self.partitions):
            if not partition.moving and any(map(self.fleet.is_live, partition.isr)):
                yield index

    def has_room(self, node_id: int, index: int) -> bool:
        room = self._room[node_id]
        return room is None or self.partitions[index].size_bytes <= room or node_id in self.partitions[index].replicas

    def may_leave(self, index: int, node_id: int, domain: Domain) -> bool:
        """Whether the replica on `node_id` could be in `domain` and the partition's as far apart as they are."""
        replicas = self.replicas[index]
        if len(replicas) == 1:
            return True
        others = [other for other in replicas if other != node_id]
        return self.fleet.crowding(domain, others) <= self.fleet.crowding(self.fleet.domain(node_id), others)

    def may_replace(self, index: int, old: int, new: int) -> bool:
        """Whether the replica on `old` could be on `new`."""
        return (
            new not in self.replicas[index]
            and self.has_room(new, index)
            and self.may_leave(index, old, self.fleet.domain(new))
        )

    def replace(self, index: int, old: int, new: int) -> None:
        replicas = self.replicas[index]
        replicas[replicas.index(old)] = new
        self._count(index, old, -1)
        self._count(index, new, 1)

    def add(self, index: int, node_id: int) -> None:
        self.replicas[index].append(node_id)
        self._count(index, node_id, 1)

    def lead(self, index: int, node_id: int) -> None:
        """Prefer this replica as leader; the others keep their order."""
        replicas = self.replicas[index]
        replicas.remove(node_id)
        replicas.insert(0, node_id)

    def changed(self) -> list[int]:
        return [
            index
            for index, partition in enumerate(self.partitions)
            if tuple(self.replicas[index]) != partition.replicas
        ]

    def plan(self, waiting: Sequence[Unmoved] = ()) -> Plan:
        after = _holdings(self.fleet, self.partitions, self.replicas)
        changes = (BrokerChange(node_id, self._before[node_id], after[node_id]) for node_id in self.fleet.brokers)
        return Plan(tuple(map(self._move, self.changed())), tuple(changes), tuple(waiting))

    def _move(self, index: int) -> Move:
        partition, replicas = self.partitions[index], tuple(self.replicas[index])
        added = sum(node_id not in partition.replicas for node_id in replicas)
        return Move(partition.topic, partition.partition, partition.replicas, replicas, added * partition.size_bytes)

    def _count(self, index: int, node_id: int, sign: int) -> None:
        size_bytes = self.partitions[index].size_bytes
        self.bytes_on[node_id] += sign * size_bytes
        self.replicas_on[node_id] += sign
        room = self._room.get(node_id)
        # What leaves makes no room before all is done, what it held before needs none.
        if room is not None and node_id not in self.partitions[index].replicas:
            self._room[node_id] = room - sign * size_bytes


def _holdings(
    fleet: Fleet, partitions: Sequence[PlacedPartition], replicas: Sequence[Sequence[int]]
) -> dict[int, Holding]:
    """Also of brokers that only a list of replicas knows."""
    rows: dict[int, list[int]] = {node_id: [0, 0, 0] for node_id in fleet.brokers}
    for partition, node_ids in zip(partitions, replicas, strict=True):
        for position, node_id in enumerate(node_ids):
            row = rows.setdefault(node_id, [0, 0, 0])
            row[0] += 1
            row[1] += position == 0
            row[2] += partition.size_bytes
    return {node_id: Holding(*row) for node_id, row in rows.items()}
