"""The topics as a broker knows them from nodes that it read and deltas that it was sent, in whatever order."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from penstock.cluster.core.delta import Delta, PartitionRow, TopicRow
from penstock.cluster.core.image import PartitionImage


@dataclass(slots=True)
class KnownTopic:
    row: TopicRow
    # By number; those that are not known yet are missing at the end only.
    partitions: list[PartitionImage]

    @property
    def is_complete(self) -> bool:
        return len(self.partitions) >= self.row.partition_count


class KnownTopics:
    """Of every node the later version stays, of two topics with one name the one that was created later."""

    def __init__(self) -> None:
        self._topics: dict[str, KnownTopic] = {}

    def __iter__(self) -> Iterator[KnownTopic]:
        return iter(list(self._topics.values()))

    def get(self, name: str) -> KnownTopic | None:
        return self._topics.get(name)

    def lacking(self, topics: Iterable[TopicRow], unreadable: Iterable[str] = ()) -> list[str]:
        """Names of topics that are known and not among these."""
        there = {topic.name for topic in topics}.union(unreadable)
        return [name for name in self._topics if name not in there]

    def replace_all(
        self, topics: Iterable[TopicRow], partitions: Iterable[PartitionRow], unreadable: Container[str] = ()
    ) -> list[str]:
        """Everything that there is, as it was read. The names of topics that are gone.

        What is known already may be newer than the read: it stays. So does what is there and could not be understood.
        """
        before = self._topics
        self._topics = {name: known for name, known in before.items() if name in unreadable}
        for topic in topics:
            known = before.get(topic.name)
            if known is None or known.row.generation < topic.generation:
                known = KnownTopic(topic, [])
            self._topics[topic.name] = known
            self._take_topic(topic)
        self._take_partitions(partitions)
        return [name for name in before if name not in self._topics]

    def apply(self, delta: Delta) -> tuple[dict[str, None], list[str]]:
        """Names of topics that have changed and can be shown, and of those that are gone."""
        gone = []
        for removed in delta.removed:
            known = self._topics.get(removed.topic)
            if known is not None and known.row.topic_id == removed.topic_id:
                del self._topics[removed.topic]
                gone.append(removed.topic)
        changed: dict[str, None] = {}
        for topic in delta.topics:
            if self._take_topic(topic):
                changed[topic.name] = None
        changed.update(self._take_partitions(delta.partitions))
        return {name: None for name in changed if self._topics[name].is_complete}, gone

    def _take_topic(self, topic: TopicRow) -> bool:
        known = self._topics.get(topic.name)
        if known is None or known.row.generation < topic.generation:
            self._topics[topic.name] = KnownTopic(topic, [])
            return True
        if known.row.topic_id != topic.topic_id:
            return False
        is_newer = topic.config_version > known.row.config_version
        if is_newer or topic.partition_count > known.row.partition_count:
            newest = topic if is_newer else known.row
            count = max(topic.partition_count, known.row.partition_count)
            row = TopicRow(topic.name, topic.topic_id, topic.generation, count, newest.config, newest.config_version)
            known.row = row
            return True
        return False

    def _take_partitions(self, rows: Iterable[PartitionRow]) -> dict[str, None]:
        changed: dict[str, None] = {}
        for row in sorted(rows, key=_number):
            known = self._topics.get(row.topic)
            if known is None or known.row.topic_id != row.topic_id:
                continue
            image = PartitionImage(row.state, row.version)
            if row.partition == len(known.partitions):
                known.partitions.append(image)
            elif row.partition < len(known.partitions) and known.partitions[row.partition].version < row.version:
                known.partitions[row.partition] = image
            else:
                continue
            changed[row.topic] = None
        return changed


def _number(row: PartitionRow) -> int:
    return row.partition
