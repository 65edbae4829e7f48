"""What a controller is told. Requests carry an id of the caller's choice and get exactly one `Answer` under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from penstock.cluster.core.election import LogEnd, TopicSettings
from penstock.cluster.core.view import PartitionKey, TopicView
from penstock.coordination.interface import Node
from penstock.coordination.paths import Registration

# Of the store


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A registration was read, also one that is known already. What it replaced is over."""

    node_id: int
    # The creation id of its node.
    broker_epoch: int
    registration: Registration


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The registration of this epoch is not there any more, and no later one was seen."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """A new topic, more partitions, or other settings with all partitions as they were read.

    Tell it when its commit has succeeded, before any registration that is read later: a broker that comes back
    without its data must be taken from every ISR that was there before.
    """

    topic: TopicView


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    topic: str
    settings: TopicSettings


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    topic: str


@dataclass(frozen=True, slots=True)
class Committed:
    """`versions` of all changes of that Commit, in order."""

    commit_id: int
    versions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Nothing of it was done. `nodes`: every path of that Commit, read anew after a sync; None: not there."""

    commit_id: int
    nodes: Mapping[str, Node | None]


# Of the brokers


@dataclass(frozen=True, slots=True)
class BrokerFoundDead:
    """Evidence, never a time-out: nobody lives at the address that was registered in this epoch."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The answer to AskLogEnds, by broker: the epoch in which it answered, and its log's end."""

    partition: PartitionKey
    ends: Mapping[int, tuple[int, LogEnd]]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; see `Controller.next_deadline_ms`."""


# Requests


@dataclass(frozen=True, slots=True)
class BrokerStopping:
    """Controlled shutdown: answered when it leads nothing that another could lead, and the ISRs do without it.

    The controller forgets it when it is replaced: ask again while there is no answer.
    """

    request_id: int
    node_id: int
    broker_epoch: int


class IsrMember(NamedTuple):
    """`broker_epoch` NO_EPOCH: a recorded member that shall stay. Others join with the epoch in which they fetched."""

    node_id: int
    broker_epoch: int


class IsrChange(NamedTuple):
    topic_id: UUID
    partition: int
    leader_epoch: int
    # The version that the leader knows.
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    # Who had everything once and has not kept it: it leaves the ISR and is not eligible for having been there.
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """From a leader. What is accepted raises the version even if the ISR stays the same: older copies are void then."""

    request_id: int
    node_id: int
    broker_epoch: int
    changes: tuple[IsrChange, ...]


class ReassignmentWish(NamedTuple):
    partition: PartitionKey
    # None: cancel.
    replicas: tuple[int, ...] | None
    # Bytes a second; 0: as fast as it can.
    throttled_rate: int = 0


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    request_id: int
    wishes: tuple[ReassignmentWish, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    request_id: int
    # None: all that need it.
    partitions: tuple[PartitionKey, ...] | None
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    request_id: int
    node_id: int


@dataclass(frozen=True, slots=True)
class SetDraining:
    request_id: int
    node_id: int
    draining: bool
    # Of the moves that it takes.
    throttled_rate: int = 0


@dataclass(frozen=True, slots=True)
class ConfigureBroker:
    """All that is set while it runs, from now on."""

    request_id: int
    node_id: int
    config: Mapping[str, str]


Request = (
    BrokerStopping
    | AlterPartition
    | AlterReassignments
    | ElectLeaders
    | UnregisterBroker
    | SetDraining
    | ConfigureBroker
)
Event = (
    BrokerRegistered
    | BrokerGone
    | TopicChanged
    | TopicConfigured
    | TopicRemoved
    | Committed
    | Conflicted
    | BrokerFoundDead
    | LogEnds
    | Tick
    | Request
)
