"""The offsets of all groups of one machine: durable state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.groups.core.pending_offsets import PendingOffsets
from penstock.groups.core.records import CommittedOffset, OffsetCommit, Record

_NO_OFFSETS: Mapping[str, Mapping[int, CommittedOffset]] = {}

# One record has the group's name and the topic's: at most 20 MB, while a batch of a hundred no follower would get.
FORGOTTEN_AT_ONCE = 5000


class OffsetTable:
    """Group id → topic → partition → offset. Levels that become empty are removed: a group that committed nothing is

    not known here. What transactions have sent and not committed yet is apart, in `pending`.
    """

    def __init__(self) -> None:
        self.pending = PendingOffsets()
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def apply(self, record: OffsetCommit) -> None:
        if record.value is not None:
            topics = self._groups.setdefault(record.group_id, {})
            topics.setdefault(record.topic, {})[record.partition] = record.value
        else:
            self._remove(record)

    def _remove(self, record: OffsetCommit) -> None:
        topics = self._groups.get(record.group_id, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions:
            topics.pop(record.topic, None)
        if not topics:
            self._groups.pop(record.group_id, None)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._groups.get(group_id, _NO_OFFSETS)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.of(group_id).get(topic, {}).get(partition)

    def tombstones(self, group_id: str) -> list[Record]:
        """Of all that the group has, also of what a transaction would commit later."""
        committed = [
            OffsetCommit(group_id, topic, partition, None)
            for topic, partitions in self.of(group_id).items()
            for partition in partitions
        ]
        return [*committed, *self.pending.tombstones(group_id)]
