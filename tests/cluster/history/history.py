"""Events, sorted out for the checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec
from tests.cluster.history.events import AnyEvent, AtPartition, Event, Replica, Stored, StoredRecord, to_line

T = TypeVar("T", bound=Event)
P = TypeVar("P", bound=AtPartition)
# Enough to see what a finding is about.
_SHOWN_BYTES = 400


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Finding(NamedTuple):
    """Something that must not be, and the events that show it."""

    kind: str
    text: str
    events: tuple[Event, ...]

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.text}"]
        lines += [f"    {to_line(event)[:_SHOWN_BYTES].decode(errors='replace')}" for event in self.events]
        return "\n".join(lines)


def at(event: AtPartition) -> TopicPartition:
    return TopicPartition(event.topic, event.partition)


def bare(batch: Stored) -> Stored:
    """A finding shows the batch, not its thousand records."""
    return msgspec.structs.replace(batch, records=())


class ReplicaLog(NamedTuple):
    replica: Replica
    # By offset
    batches: list[Stored]

    def records(self) -> Iterator[tuple[Stored, StoredRecord]]:
        for batch in self.batches:
            for record in batch.records:
                yield batch, record

    def committed(self) -> Iterator[tuple[Stored, StoredRecord]]:
        """What this replica may not lose. Of one that is not in sync nothing: others may have cut it off."""
        for batch, record in self.records() if self.replica.in_sync else ():
            if record.offset < self.replica.high_watermark:
                yield batch, record

    def by_offset(self) -> dict[int, tuple[Stored, StoredRecord]]:
        return {record.offset: (batch, record) for batch, record in self.records()}


class History:
    """Events must be in the order of time."""

    def __init__(self, events: Iterable[AnyEvent]) -> None:
        self._by_kind: defaultdict[type[Event], list[Event]] = defaultdict(list)
        for event in events:
            self._by_kind[type(event)].append(event)
        self.replicas: dict[TopicPartition, list[ReplicaLog]] = {}
        logs: dict[tuple[str, int, int], ReplicaLog] = {}
        for replica in self.of(Replica):
            log = ReplicaLog(replica, [])
            # The last dump counts.
            logs[replica.topic, replica.partition, replica.broker] = log
        for stored in self.of(Stored):
            logs[stored.topic, stored.partition, stored.broker].batches.append(stored)
        for log in logs.values():
            log.batches.sort(key=lambda batch: batch.base_offset)
            self.replicas.setdefault(at(log.replica), []).append(log)

    def of(self, kind: type[T]) -> list[T]:
        return self._by_kind[kind]  # type: ignore[return-value]

    def by_partition(self, kind: type[P]) -> dict[TopicPartition, list[P]]:
        grouped: defaultdict[TopicPartition, list[P]] = defaultdict(list)
        for event in self.of(kind):
            grouped[at(event)].append(event)
        return grouped

    def count(self) -> int:
        return sum(map(len, self._by_kind.values()))
