"""Topics and leaders, as metadata show them."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from penstock.spark.core.topic_partition import TopicPartition


class Topic(NamedTuple):
    name: str
    topic_id: UUID
    # In order, from 0 on.
    partitions: tuple[int, ...]
    is_internal: bool = False

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.name, partition) for partition in self.partitions)


class Leader(NamedTuple):
    node_id: int
    leader_epoch: int
    topic_id: UUID


class FoundOffset(NamedTuple):
    offset: int
    # -1: not known.
    leader_epoch: int
