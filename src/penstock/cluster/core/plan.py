"""What planning begins from and what it ends with: partitions where they are, and the moves that change it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    topic: str
    partition: int
    # Where it is, the preferred leader first; of a partition whose reassignment is under way, where it will be.
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    # Of one replica. 0: empty or not known; such partitions are evened out by their number.
    size_bytes: int = 0
    min_isr: int = 1
    # A reassignment is under way: it counts, and no plan touches it.
    moving: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """New replicas of one partition, the preferred leader first; the order alone may be what changes."""

    topic: str
    partition: int
    before: tuple[int, ...]
    replicas: tuple[int, ...]
    # What has to be copied, for all replicas that are added.
    size_bytes: int

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(node_id for node_id in self.replicas if node_id not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(node_id for node_id in self.before if node_id not in self.replicas)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a broker has, or will have. Leaders are preferred ones."""

    replicas: int
    leaders: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerChange:
    node_id: int
    before: Holding
    after: Holding


@dataclass(frozen=True, slots=True)
class Unmoved:
    """A partition that has to move and cannot, and why."""

    topic: str
    partition: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves by topic and partition; nothing to do if there are none. The same input gives the same plan."""

    moves: tuple[Move, ...]
    # Every known broker, by id, changed or not.
    brokers: tuple[BrokerChange, ...]
    # Have to move, but a reassignment of theirs is under way: plan again when it has ended.
    waiting: tuple[Unmoved, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(move.size_bytes for move in self.moves)
