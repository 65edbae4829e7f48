"""How a cluster is: its brokers with what they hold, and the partitions that somebody should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.cluster.core.image import Image
from penstock.cluster.core.view import PartitionKey
from penstock.coordination.paths import NO_LEADER, PartitionState

# Partitions that each list names at most: of a cluster that is down, all would be in it.
NAMED = 100


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    node_id: int
    # Empty: where the client has reached it.
    address: str
    rack: str | None
    live: bool
    draining: bool
    replicas: int
    leaders: int
    # None: it did not say in time.
    size_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Troubled:
    """How many partitions, and the names of the first of them."""

    count: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moving:
    topic: str
    partition: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Status:
    cluster_id: str
    controller: int
    topics: int
    partitions: int
    brokers: tuple[BrokerStatus, ...]
    without_leader: Troubled
    under_replicated: Troubled
    below_min_isr: Troubled
    # Led by another than the first of their replicas.
    not_preferred: Troubled
    reassignments: int
    # The first of them.
    moving: tuple[Moving, ...]


def status_of(
    image: Image, draining: Collection[int], sizes: Mapping[int, int], free_bytes: Mapping[int, int]
) -> Status:
    """`sizes` and `free_bytes` by broker, of those that have said."""
    topics = image.topics()
    states = {
        PartitionKey(topic.name, index): partition.state
        for topic in topics
        for index, partition in enumerate(topic.partitions)
    }
    replicas = Counter(node_id for state in states.values() for node_id in state.replicas)
    leaders = Counter(state.leader for state in states.values())
    moving = [(key, state) for key, state in states.items() if state.adding or state.removing]
    brokers = tuple(
        BrokerStatus(
            broker.node_id,
            f"{broker.host}:{broker.port}" if broker.host else "",
            broker.rack,
            broker.is_live,
            broker.node_id in draining,
            replicas[broker.node_id],
            leaders[broker.node_id],
            sizes.get(broker.node_id),
            free_bytes.get(broker.node_id),
        )
        for _, broker in sorted(image.brokers.items())
    )
    return Status(
        cluster_id=image.cluster_id,
        controller=image.controller_id,
        topics=len(topics),
        partitions=len(states),
        brokers=brokers,
        without_leader=_troubled(key for key, state in states.items() if state.leader == NO_LEADER),
        under_replicated=_troubled(key for key, state in states.items() if _lacks_replicas(state)),
        below_min_isr=_troubled(key for key, state in states.items() if _refuses_writes(state)),
        not_preferred=_troubled(key for key, state in states.items() if state.leader != state.replicas[0]),
        reassignments=len(moving),
        moving=tuple(Moving(*key, state.adding, state.removing) for key, state in moving[:NAMED]),
    )


def _lacks_replicas(state: PartitionState) -> bool:
    """Those that are being added are not missed yet."""
    return any(node_id not in state.isr for node_id in state.replicas if node_id not in state.adding)


def _refuses_writes(state: PartitionState) -> bool:
    return len(state.isr) < state.min_insync_replicas


def _troubled(keys: Iterable[PartitionKey]) -> Troubled:
    found = list(keys)
    return Troubled(len(found), tuple(f"{topic}-{partition}" for topic, partition in found[:NAMED]))
