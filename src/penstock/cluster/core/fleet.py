"""The brokers as planning sees them: who may take replicas, who fails together, whose disk is short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

# Below this share of what a middling broker has free, a broker gets fewer replicas, in proportion.
SHORT_SHARE = 0.5
# Below this share it gets none, unless racks or machines could not be kept apart without it.
TIGHT_SHARE = 0.1
# A full disk still needs an order among full disks.
_LEAST_WEIGHT = 0.001


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    # Brokers of one machine share it: a failure domain.
    machine: str
    # Brokers without a rack are in one rack together: nothing says that they are apart.
    rack: str | None = None
    # None: not known; such a broker counts as one with room.
    free_bytes: int | None = None
    live: bool = True
    draining: bool = False
    # What it holds of all topics. Placement starts from it; plans of moves count for themselves.
    replicas: int = 0
    leaders: int = 0


class Domain(NamedTuple):
    """What fails together. Brokers of the same domain can stand in for each other in any partition."""

    rack: str | None
    # None: it has one broker, and no partition has two replicas there.
    machine: str | None


class Fleet:
    """All brokers that are known, the dead ones included. What it answers is the same for any order of them."""

    def __init__(self, brokers: Iterable[Broker]) -> None:
        self.brokers = {broker.node_id: broker for broker in sorted(brokers, key=lambda broker: broker.node_id)}
        # May get replicas: alive and not to be emptied.
        self.takers = [broker.node_id for broker in self.brokers.values() if broker.live and not broker.draining]
        self._weights = _disk_weights([self.brokers[node_id] for node_id in self.takers])
        shared = Counter(broker.machine for broker in self.brokers.values())
        self._domains = {
            broker.node_id: Domain(broker.rack, broker.machine if shared[broker.machine] > 1 else None)
            for broker in self.brokers.values()
        }

    def weight(self, node_id: int) -> float:
        """Of a taker: how much it should get by its free disk; 1.0 for all but those that run short."""
        return self._weights[node_id]

    def is_tight(self, node_id: int) -> bool:
        return self._weights[node_id] < TIGHT_SHARE / SHORT_SHARE

    def is_live(self, node_id: int) -> bool:
        broker = self.brokers.get(node_id)
        return broker is not None and broker.live

    def domain(self, node_id: int) -> Domain:
        return self._domains[node_id]

    def crowding(self, domain: Domain, others: Iterable[int]) -> tuple[int, int]:
        """How many of `others` share the rack, and how many the machine.

        Taking a broker whose domain has the least of it, one replica after another, keeps replicas as far apart as is
        possible at all: racks first, then machines. Brokers that nobody knows any more share nothing.
        """
        rack, machine = domain
        in_rack = on_machine = 0
        for other in others:
            if other in self._domains:
                its_rack, its_machine = self._domains[other]
                in_rack += its_rack == rack
                on_machine += machine is not None and its_machine == machine
        return in_rack, on_machine


def _disk_weights(takers: list[Broker]) -> dict[int, float]:
    known = sorted(broker.free_bytes for broker in takers if broker.free_bytes is not None)
    # Of two brokers the one with more: else neither could be short.
    middling = known[len(known) // 2] if known else 0
    return {broker.node_id: _weight(broker.free_bytes, middling * SHORT_SHARE) for broker in takers}


def _weight(free_bytes: int | None, enough: float) -> float:
    if free_bytes is None or free_bytes >= enough:
        return 1.0
    return max(free_bytes / enough, _LEAST_WEIGHT)
