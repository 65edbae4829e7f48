"""The offsets that transactions under way shall commit: durable state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from penstock.groups.core.records import PendingOffset, PendingOffsetCommit


class Place(NamedTuple):
    group_id: str
    topic: str
    partition: int


_NO_OFFSETS: Mapping[Place, PendingOffset] = {}
_NO_SENDERS: Mapping[int, None] = {}


def weight_bytes(group_id: str, topic: str, metadata: str) -> int:
    """An upper bound of what the end of a transaction writes for one offset, with text at four bytes a character: the

    commit, and the tombstone of what was pending.
    """
    return 192 + 8 * (len(group_id) + len(topic)) + 4 * len(metadata)


class PendingOffsets:
    """By producer and by group. All that a producer has here were sent in the same epoch. Levels that become empty are

    removed.
    """

    def __init__(self) -> None:
        self._producers: dict[int, dict[Place, PendingOffset]] = {}
        self._weights: dict[int, int] = {}
        # Whose offsets there are for a place, the newest last; a compacted log has them in the same order.
        self._senders: dict[str, dict[Place, dict[int, None]]] = {}

    def apply(self, record: PendingOffsetCommit) -> None:
        producer_id, value = record.producer_id, record.value
        place = Place(record.group_id, record.topic, record.partition)
        self._remove(producer_id, place)
        if value is not None:
            self._producers.setdefault(producer_id, {})[place] = value
            weight = weight_bytes(place.group_id, place.topic, value.metadata)
            self._weights[producer_id] = self._weights.get(producer_id, 0) + weight
            self._senders.setdefault(place.group_id, {}).setdefault(place, {})[producer_id] = None

    def _remove(self, producer_id: int, place: Place) -> None:
        offsets = self._producers.get(producer_id, {})
        value = offsets.pop(place, None)
        if value is None:
            return
        self._weights[producer_id] -= weight_bytes(place.group_id, place.topic, value.metadata)
        if not offsets:
            del self._producers[producer_id], self._weights[producer_id]
        places = self._senders[place.group_id]
        del places[place][producer_id]
        if not places[place]:
            del places[place]
        if not places:
            del self._senders[place.group_id]

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._senders

    def __iter__(self) -> Iterator[str]:
        return iter(self._senders)

    def of(self, producer_id: int) -> Mapping[Place, PendingOffset]:
        return self._producers.get(producer_id, _NO_OFFSETS)

    def epoch_of(self, producer_id: int) -> int | None:
        """Of the transaction that is under way here, if there is one."""
        for offset in self.of(producer_id).values():
            return offset.producer_epoch
        return None

    def weight_of(self, producer_id: int) -> int:
        return self._weights.get(producer_id, 0)

    def senders(self, group_id: str, topic: str, partition: int) -> Collection[int]:
        """The producers that have one for this partition; who sent last is last."""
        place = Place(group_id, topic, partition)
        return self._senders.get(group_id, {}).get(place, _NO_SENDERS).keys()

    def tombstones(self, group_id: str, topic: str | None = None) -> list[PendingOffsetCommit]:
        """For all that the group has, or of one topic."""
        return [
            PendingOffsetCommit(producer_id, *place, None)
            for place, senders in self._senders.get(group_id, {}).items()
            if topic in (None, place.topic)
            for producer_id in senders
        ]

    def tombstones_at(self, group_id: str, topic: str, partition: int) -> list[PendingOffsetCommit]:
        senders = self.senders(group_id, topic, partition)
        return [PendingOffsetCommit(producer_id, group_id, topic, partition, None) for producer_id in senders]
