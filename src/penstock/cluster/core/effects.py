"""What a controller wants done, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from penstock.cluster.core.view import PartitionKey, PartitionNode
from penstock.coordination.interface import Change
from penstock.coordination.paths import BrokerState
from penstock.errors import Refused


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction; at most one is on its way. The first change checks the controller epoch.

    Tell `Committed` or `Conflicted`. When it is not known what became of it: read the whole store anew, `start` again.
    """

    commit_id: int
    changes: tuple[Change, ...]


class PublishedPartition(NamedTuple):
    key: PartitionKey
    topic_id: UUID
    node: PartitionNode


class PublishedBroker(NamedTuple):
    node_id: int
    # None: it was unregistered.
    state: BrokerState | None
    version: int


@dataclass(frozen=True, slots=True)
class Publish:
    """These nodes have changed for good: tell all brokers."""

    partitions: tuple[PublishedPartition, ...]
    brokers: tuple[PublishedBroker, ...] = ()


@dataclass(frozen=True, slots=True)
class AskLogEnds:
    """Ask each of these brokers, in this broker epoch, for the last epoch and the end of its log; tell `LogEnds`.

    Repeated while it is not answered.
    """

    partition: PartitionKey
    brokers: Mapping[int, int]


class Row(NamedTuple):
    """What became of one partition of a request, at its position; refused, or as it is now.

    NEW_LEADER_ELECTED has both: it was done, and with it the leader that asked lost its leadership.
    """

    key: PartitionKey | None
    refusal: Refused | None = None
    node: PartitionNode | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    request_id: int
    # Of the whole request; then there are no rows.
    refusal: Refused | None = None
    rows: tuple[Row, ...] = ()
    # Controlled shutdown: what the broker leads still because nobody else could.
    leaderships: int = 0


@dataclass(frozen=True, slots=True)
class Reload:
    """What the store says does not fit: read all of it anew and `start` again."""


@dataclass(frozen=True, slots=True)
class Resign:
    """Another controller has begun. Everything that was asked has been answered; nothing is decided any more."""


Effect = Commit | Publish | AskLogEnds | Answer | Reload | Resign
