"""How far a stream is, as Spark keeps it in its checkpoint.

Beside the offsets it holds topic ids, so that a topic that was deleted and created anew is noticed, and leader epochs,
so that a task needs metadata as new as the driver's. What Spark's own Kafka source has written can be read too.

Spark records where batches end, and not where the first one began: if that has to be done again it asks anew, and by
then the log may have another end. So the end of the first batch says where it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from penstock.spark.core.topic_partition import TopicPartition


class SourceOffsetError(ValueError):
    """A checkpoint that is not one of this source."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """`offsets` are of the next records to read. A topic without an id is one that nobody has compared yet."""

    offsets: Mapping[TopicPartition, int]
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    # Of the batch that ends here, if Spark may not know it; else none.
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> SourceOffset:
        """SourceOffsetError for what neither this source nor Spark's Kafka source has written."""
        offsets: dict[TopicPartition, int] = {}
        leader_epochs: dict[TopicPartition, int] = {}
        topic_ids: dict[str, UUID] = {}
        begins: dict[TopicPartition, int] = {}
        try:
            for topic, of_topic in document.items():
                ours = "offsets" in of_topic
                offsets |= _numbers(topic, of_topic["offsets"] if ours else of_topic)
                if ours:
                    leader_epochs |= _numbers(topic, of_topic.get("leaderEpochs", {}))
                    begins |= _numbers(topic, of_topic.get("begins", {}))
                if ours and "id" in of_topic:
                    topic_ids[topic] = UUID(of_topic["id"])
        except (ValueError, TypeError, AttributeError) as error:
            raise SourceOffsetError(f"The checkpoint holds an offset that is not of this source: {document}") from error
        return cls(offsets, leader_epochs, topic_ids, begins)

    def document(self) -> dict[str, Any]:
        """In one order, always: Spark takes two offsets for equal if they are the same text."""
        by_topic: dict[str, dict[str, Any]] = {}
        for partition, offset in sorted(self.offsets.items()):
            of_topic = by_topic.setdefault(partition.topic, self._empty(partition.topic))
            of_topic["offsets"][str(partition.partition)] = offset
            if partition in self.leader_epochs:
                of_topic["leaderEpochs"][str(partition.partition)] = self.leader_epochs[partition]
            if partition in self.begins:
                of_topic.setdefault("begins", {})[str(partition.partition)] = self.begins[partition]
        return by_topic

    def _empty(self, topic: str) -> dict[str, Any]:
        known = {"id": str(self.topic_ids[topic])} if topic in self.topic_ids else {}
        return {**known, "offsets": {}, "leaderEpochs": {}}

    def after(self, earlier: SourceOffset) -> SourceOffset:
        """This one, as the end of a batch that begins with `earlier`.

        Where nothing has come since, the leader epoch is as it was there, so that an election alone is no news: Spark
        would run a batch for it.
        """
        unchanged = {
            tp: epoch
            for tp, epoch in earlier.leader_epochs.items()
            if tp in self.offsets and self.offsets[tp] == earlier.offsets.get(tp)
        }
        begins = {} if earlier.has_all_ids else earlier.offsets
        return SourceOffset(self.offsets, {**self.leader_epochs, **unchanged}, self.topic_ids, begins)

    def begun(self, start: SourceOffset) -> SourceOffset:
        """Where the batch that ends here began, which is what Spark says only if it has recorded that."""
        return replace(start, offsets=self.begins) if self.begins else start

    @property
    def has_all_ids(self) -> bool:
        return all(tp.topic in self.topic_ids for tp in self.offsets)

    def identified(self, now: SourceOffset) -> SourceOffset:
        """With the ids that topics have `now`, where it has none itself: Spark's Kafka source knows none."""
        return replace(self, topic_ids={**now.topic_ids, **self.topic_ids})

    def renewed_topics(self, later: SourceOffset) -> frozenset[str]:
        """Topics that have another id in `later`: other topics of the same name."""
        both = self.topic_ids.keys() & later.topic_ids.keys()
        return frozenset(topic for topic in both if self.topic_ids[topic] != later.topic_ids[topic])


def _numbers(topic: str, by_partition: Mapping[str, Any]) -> dict[TopicPartition, int]:
    found = {TopicPartition(topic, int(number)): value for number, value in by_partition.items()}
    if not all(type(value) is int for value in found.values()):
        raise ValueError(topic)
    return found
