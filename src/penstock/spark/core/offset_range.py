"""What one task reads: a stretch of one partition's log."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from penstock.spark.core.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of `[start, end)`. Plain and picklable: it travels from the driver to a task.

    A topic with another id than `topic_id` was created anew and must not be read in its place. `leader_epoch` is the
    newest that the driver knew, -1 if none: a reader needs metadata as new, and a later leader is no error.
    """

    topic: str
    topic_id: UUID
    partition: int
    start: int
    end: int
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
