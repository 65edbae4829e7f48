"""Where the replicas of new partitions go, and whether a wish of where they should go can be granted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.cluster.core.fleet import Broker, Fleet
from penstock.errors import PenstockError, Problem


def place(
    brokers: Iterable[Broker],
    partition_count: int,
    replication_factor: int,
    placed: Iterable[Sequence[int]] = (),
) -> list[tuple[int, ...]]:
    """Replicas of each new partition of one topic, the preferred leader first; `placed` has those it has already.

    Replicas of a partition are on different brokers, which are alive and not draining, in different racks and on
    different machines as far as there are enough (else as evenly as can be). The topic's leaders and replicas are even
    over the brokers, fewer on those whose disk runs short; what does not divide evenly goes to the brokers that hold
    the least of other topics. Brokers share as few partitions as possible, so that when one fails its leaders spread.
    Raises PenstockError INVALID_REPLICATION_FACTOR.
    """
    fleet = Fleet(brokers)
    check_replication_factor(fleet, replication_factor)
    handing_out = _Round(fleet, partition_count, replication_factor)
    handing_out.count_in(placed)
    return [handing_out.next_partition() for _ in range(partition_count)]


def check_replication_factor(fleet: Fleet, replication_factor: int) -> None:
    if replication_factor < 1:
        text = f"replication factor {replication_factor}: at least 1 is needed"
        raise PenstockError(Problem.INVALID_REPLICATION_FACTOR, text)
    if replication_factor > len(fleet.takers):
        live = sum(broker.live for broker in fleet.brokers.values())
        drained = live - len(fleet.takers)
        text = f"replication factor {replication_factor}: there are {live} live brokers"
        text += f", {drained} of them being drained" if drained else ""
        raise PenstockError(Problem.INVALID_REPLICATION_FACTOR, text)


def check_assignment(
    brokers: Iterable[Broker],
    assignment: Mapping[int, Sequence[int]],
    first_partition: int = 0,
    replication_factor: int | None = None,
) -> None:
    """Replicas by hand for new partitions, numbered from `first_partition`; all with as many replicas as the first,

    or as `replication_factor` says. Raises PenstockError INVALID_REPLICA_ASSIGNMENT.
    """
    if not assignment:
        raise _bad("the assignment names no partition")
    last = first_partition + len(assignment) - 1
    if missing := sorted(set(range(first_partition, last + 1)) - set(assignment)):
        raise _bad(f"partitions must be numbered from {first_partition} without gaps: {missing[0]} is missing")
    known = Fleet(brokers)
    for partition in range(first_partition, last + 1):
        replicas = assignment[partition]
        _check_replicas(known, replicas, keeping=(), where=f"partition {partition}")
        if replication_factor is None:
            replication_factor = len(replicas)
        if len(replicas) != replication_factor:
            text = f"partition {partition} has {len(replicas)} replicas, the others {replication_factor}"
            raise _bad(f"{text}: all need the same number")


def check_reassignment(brokers: Iterable[Broker], current: Sequence[int], wanted: Sequence[int]) -> None:
    """Whether a partition may move from `current` to `wanted`; what stays may stay where it is dead or draining.

    Raises PenstockError INVALID_REPLICA_ASSIGNMENT.
    """
    _check_replicas(Fleet(brokers), wanted, keeping=current, where="the reassignment")


def _check_replicas(fleet: Fleet, replicas: Sequence[int], keeping: Sequence[int], where: str) -> None:
    if not replicas:
        raise _bad(f"{where} has no replicas: at least one is needed")
    for position, node_id in enumerate(replicas):
        broker = fleet.brokers.get(node_id)
        if node_id in replicas[:position]:
            raise _bad(f"{where} names broker {node_id} twice")
        if broker is None and node_id not in keeping:
            raise _bad(f"{where} names broker {node_id}, which does not exist")
        if broker is None or node_id in keeping:
            continue
        if not broker.live:
            raise _bad(f"{where} names broker {node_id}, which is not running")
        if broker.draining:
            raise _bad(f"{where} names broker {node_id}, which is being drained")


def _bad(text: str) -> PenstockError:
    return PenstockError(Problem.INVALID_REPLICA_ASSIGNMENT, text)


class _Slot:
    """A broker while partitions are handed out. Loads say what they would be with one more, over the disk's weight."""

    __slots__ = (
        "held",
        "held_leaders",
        "leader_load",
        "load",
        "machine",
        "node_id",
        "rack",
        "tight",
        "together",
        "weight",
    )

    def __init__(self, broker: Broker, fleet: Fleet) -> None:
        self.node_id = broker.node_id
        self.rack = broker.rack
        self.machine = broker.machine
        self.weight = fleet.weight(broker.node_id)
        self.tight = fleet.is_tight(broker.node_id)
        self.load = self.leader_load = 1 / self.weight
        self.held = (broker.replicas + 1) / self.weight
        self.held_leaders = (broker.leaders + 1) / self.weight
        # Partitions shared with each broker that leads one of them.
        self.together: dict[int, int] = {}


class _Round:
    def __init__(self, fleet: Fleet, partition_count: int, replication_factor: int) -> None:
        self._slots = [_Slot(fleet.brokers[node_id], fleet) for node_id in fleet.takers]
        self._partitions_left = partition_count
        self._replicas_left = partition_count * replication_factor
        self._replication_factor = replication_factor

    def count_in(self, placed: Iterable[Sequence[int]]) -> None:
        slots = {slot.node_id: slot for slot in self._slots}
        for replicas in placed:
            for position, node_id in enumerate(replicas):
                slot = slots.get(node_id)
                if slot is not None:
                    slot.load += 1 / slot.weight
                    slot.leader_load += (position == 0) / slot.weight

    def next_partition(self) -> tuple[int, ...]:
        leader = self._leader()
        leader.leader_load += 1 / leader.weight
        leader.held_leaders += 1 / leader.weight
        chosen = [leader]
        self._take(leader, leader)
        while len(chosen) < self._replication_factor:
            follower = self._follower(chosen)
            self._take(follower, leader)
            chosen.append(follower)
        self._partitions_left -= 1
        return tuple(slot.node_id for slot in chosen)

    def _leader(self) -> _Slot:
        ends = self._partitions_left < len(self._slots)

        def order(slot: _Slot) -> tuple[float, ...]:
            held = slot.held_leaders if ends else 0
            return slot.tight, slot.leader_load, held, slot.load, slot.held_leaders, slot.held, slot.node_id

        return min(self._slots, key=order)

    def _take(self, slot: _Slot, leader: _Slot) -> None:
        slot.load += 1 / slot.weight
        slot.held += 1 / slot.weight
        slot.together[leader.node_id] = slot.together.get(leader.node_id, 0) + 1
        self._replicas_left -= 1

    def _follower(self, chosen: list[_Slot]) -> _Slot:
        leader = chosen[0].node_id
        racks: dict[str | None, int] = {}
        machines: dict[str, int] = {}
        for slot in chosen:
            racks[slot.rack] = racks.get(slot.rack, 0) + 1
            machines[slot.machine] = machines.get(slot.machine, 0) + 1
        # Whoever still has to lead gets a replica by that; as followers the others come first.
        leading_ends = self._partitions_left < len(self._slots)
        # As long as every broker will get one more anyway, it does not matter who holds most: they mix instead.
        ends = self._replicas_left < len(self._slots)

        def order(slot: _Slot) -> tuple[float, ...]:
            together = slot.together.get(leader, 0)
            return (
                racks.get(slot.rack, 0),
                machines.get(slot.machine, 0),
                slot.tight,
                slot.load,
                slot.held if ends else 0,
                -slot.leader_load if leading_ends else 0,
                together,
                slot.held,
                slot.node_id,
            )

        return min((slot for slot in self._slots if slot not in chosen), key=order)
