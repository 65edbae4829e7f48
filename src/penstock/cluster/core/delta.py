"""What a controller tells the brokers: nodes of the store as they are now, each newer than what was told before."""

from __future__ import annotations

from uuid import UUID

import msgspec

from penstock.coordination.paths import NO_EPOCH, PartitionState


class TopicRow(msgspec.Struct, frozen=True, array_like=True):
    """A topic without its partitions' states."""

    name: str
    topic_id: UUID
    generation: int
    partition_count: int
    config: dict[str, str]
    config_version: int


class PartitionRow(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState
    version: int


class RemovedRow(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    topic_id: UUID


class BrokerRow(msgspec.Struct, frozen=True, array_like=True):
    """Of a broker that is registered, or known from before. Without an address it is not registered."""

    node_id: int
    host: str = ""
    port: int = 0
    rack: str | None = None
    machine: str = ""
    broker_epoch: int = NO_EPOCH
    is_live: bool = False
    is_registered: bool = False
    draining: bool = False
    fenced_epoch: int = NO_EPOCH
    # It lives, and will go: it is not to join an ISR any more.
    stopping: bool = False
    # Its settings that were changed while it runs.
    config: dict[str, str] = {}


# Controller epoch, broker epoch, sequence.
Place = tuple[int, int, int]


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """`sequence` grows by one with each that this controller sends to this life of the broker, from 0 on. One that is

    not the next means that something was missed: the broker reads the store. One that came before is late: a network
    may deliver what was sent on a connection that was given up.
    """

    controller: int
    controller_epoch: int
    sequence: int
    topics: tuple[TopicRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    removed: tuple[RemovedRow, ...] = ()
    # All that are known, or None: nothing has changed.
    brokers: tuple[BrokerRow, ...] | None = None
    # Of the life that it is meant for.
    broker_epoch: int = NO_EPOCH

    @property
    def place(self) -> Place:
        """In the order of all that the broker is ever sent."""
        return self.controller_epoch, self.broker_epoch, self.sequence

    @property
    def is_empty(self) -> bool:
        return not (self.topics or self.partitions or self.removed) and self.brokers is None

    def then(self, later: Delta) -> Delta:
        """Both as one; of what both have, the later counts, and nothing is left of what the later one removes."""
        gone = {row.topic_id for row in later.removed}
        rows = [row for row in self.partitions if row.topic_id not in gone]
        partitions = {(row.topic_id, row.partition): row for row in (*rows, *later.partitions)}
        named = [row for row in self.topics if row.topic_id not in gone]
        topics = {row.topic_id: row for row in (*named, *later.topics)}
        return msgspec.structs.replace(
            later,
            topics=tuple(topics.values()),
            partitions=tuple(partitions.values()),
            removed=(*self.removed, *later.removed),
            brokers=self.brokers if later.brokers is None else later.brokers,
        )
