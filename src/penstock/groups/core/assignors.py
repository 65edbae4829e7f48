"""Server-side assignors: what an assignor sees and answers, and the choice among them.

An assignor is a pure function. It receives each member's *target* assignment, never what the member happens to
own at the moment, so that two heartbeats of one epoch compute the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Topic id to partition indexes. A topic without partitions is left out, so that equal assignments are equal maps."""

NO_PARTITIONS: Partitions = {}


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as an assignor sees it; `target` is what the previous target assignment gave it."""

    topic_ids: frozenset[UUID]
    target: Partitions
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Everything an assignor may look at. Topics that do not exist are in no member's `topic_ids`."""

    members: Mapping[str, Subscriber]
    partition_counts: Mapping[UUID, int]


Assignor = Callable[[Subscriptions], dict[str, Partitions]]
"""Answers for every member, and gives each partition of a subscribed topic to exactly one of its subscribers."""


def partitions_of(pairs: Mapping[UUID, set[int]] | Mapping[UUID, frozenset[int]]) -> Partitions:
    """The normal form: frozen, without empty topics."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in pairs.items() if indexes}
