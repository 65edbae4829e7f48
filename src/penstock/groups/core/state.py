"""All that one groups machine knows: the durable groups and offsets, and beside them what is volatile."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.offset_table import OffsetTable
from penstock.groups.core.records import (
    ClassicGroupValue,
    ConsumerGroupEpoch,
    ConsumerRecord,
    GroupMetadata,
    OffsetCommit,
    PendingOffsetCommit,
    Record,
)
from penstock.groups.core.volatile import Volatile


class GroupsState:
    """`stored` and `offsets` are a function of the records alone. Everything else is in `volatile`."""

    def __init__(self, began: int) -> None:
        self._began = began
        self.stored: dict[str, ClassicGroupValue | ConsumerGroup] = {}
        self.offsets = OffsetTable()
        self.volatile = Volatile(began)

    def apply(self, record: Record) -> None:
        match record:
            case OffsetCommit():
                self.offsets.apply(record)
                self._track_connection(record.group_id)
            case PendingOffsetCommit():
                self.offsets.pending.apply(record)
                self._track_connection(record.group_id)
            case GroupMetadata():
                self._apply_classic(record)
            case _:
                self._apply_consumer(record)

    def _track_connection(self, group_id: str) -> None:
        """On which connection it was committed nobody knows after a replay, only that it was before that."""
        if self._has_offsets(group_id):
            self.volatile.committed_on.setdefault(group_id, self._began)
        else:
            self.volatile.committed_on.pop(group_id, None)

    def _has_offsets(self, group_id: str) -> bool:
        return group_id in self.offsets or group_id in self.offsets.pending

    def _apply_classic(self, record: GroupMetadata) -> None:
        if record.value is not None:
            self.stored[record.group_id] = record.value
            self.volatile.forget_group(record.group_id)
        elif not isinstance(self.stored.get(record.group_id), ConsumerGroup):
            self._end(record.group_id)

    def _apply_consumer(self, record: ConsumerRecord) -> None:
        """A tombstone for a group of the other type is a leftover: compaction keeps it long after the change."""
        group = self.stored.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = ConsumerGroup(record.group_id)
            self.stored[record.group_id] = group
            self.volatile.forget_group(record.group_id)
        group.apply(record)
        if isinstance(record, ConsumerGroupEpoch) and record.value is None:
            self._end(record.group_id)

    def _end(self, group_id: str) -> None:
        self.stored.pop(group_id, None)
        self.volatile.forget_group(group_id)

    def find(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """The group as it is now; to be read only. One that is nothing but offsets is an empty classic group: that is

        how consumers that assign their partitions themselves appear.
        """
        remembered = self.volatile.classic.get(group_id)
        if remembered is not None:
            return remembered
        stored = self.stored.get(group_id)
        if isinstance(stored, ClassicGroupValue):
            return ClassicGroup.restored(group_id, stored)
        if stored is None and self._has_offsets(group_id):
            return ClassicGroup(group_id)
        return stored

    def group_ids(self) -> Iterator[str]:
        """Every group that `find` finds, once."""
        yield from self.stored
        yield from (group_id for group_id in self.offsets if group_id not in self.stored)
        for group_id in self.offsets.pending:
            if group_id not in self.stored and group_id not in self.offsets:
                yield group_id
        for group_id in self.volatile.classic:
            if group_id not in self.stored and not self._has_offsets(group_id):
                yield group_id
