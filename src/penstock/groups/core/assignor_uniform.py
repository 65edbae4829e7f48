"""The `uniform` assignor: as even as the subscriptions allow, moving as few partitions as that takes.

Balance comes before stickiness: no partition stays where it is if giving it to another of its subscribers would
bring two members' counts nearer to each other. With equal subscriptions that means counts differ by at most one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from uuid import UUID

from penstock.groups.core.assignors import Partitions, Subscriptions, partitions_of


def assign_uniform(subscriptions: Subscriptions) -> dict[str, Partitions]:
    draft = _Draft(subscriptions)
    draft.keep_targets()
    if draft.has_equal_subscriptions:
        draft.cut_to_quota()
        draft.place_unowned()
    else:
        draft.place_unowned()
        draft.even_out()
    return {member_id: partitions_of(topics) for member_id, topics in draft.owned.items()}


class _Draft:
    """An assignment in the making. All orders are fixed (by id), so equal input gives equal output."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._members = subscriptions.members
        self._counts = subscriptions.partition_counts
        self.owned: dict[str, dict[UUID, set[int]]] = {id_: defaultdict(set) for id_ in sorted(self._members)}
        self._load = dict.fromkeys(self.owned, 0)
        self._subscribers: dict[UUID, list[str]] = defaultdict(list)
        for member_id in self.owned:
            for topic_id in self._members[member_id].topic_ids:
                self._subscribers[topic_id].append(member_id)
        # Topics with few takers first: they have the least choice of where to go.
        self._topics = sorted(self._subscribers, key=lambda id_: (len(self._subscribers[id_]), id_.bytes))
        self._unowned = {topic_id: set(range(self._counts[topic_id])) for topic_id in self._topics}

    @property
    def has_equal_subscriptions(self) -> bool:
        return all(len(takers) == len(self.owned) for takers in self._subscribers.values())

    def keep_targets(self) -> None:
        for member_id in self.owned:
            member = self._members[member_id]
            for topic_id, indexes in member.target.items():
                if topic_id in member.topic_ids:
                    self._give(member_id, topic_id, indexes & self._unowned[topic_id])

    def cut_to_quota(self) -> None:
        """Every member gets `each`, and `extra` members one more: those that have it already, where there are such."""
        if not self.owned:
            return
        each, extra = divmod(sum(self._counts[topic_id] for topic_id in self._topics), len(self.owned))
        for member_id in self.owned:
            quota = each
            if self._load[member_id] > each and extra:
                quota, extra = each + 1, extra - 1
            self._cut(member_id, quota)

    def _cut(self, member_id: str, quota: int) -> None:
        """Takes from the topic of which the member has most, so that topics stay spread over the members."""
        topics = self.owned[member_id]
        while self._load[member_id] > quota:
            topic_id = max(topics, key=lambda id_: (len(topics[id_]), id_.bytes))
            self._take(member_id, topic_id, 1)

    def place_unowned(self) -> None:
        for topic_id in self._topics:
            unowned = sorted(self._unowned[topic_id])
            if not unowned:
                continue
            heap = [(self._load[id_], id_) for id_ in self._subscribers[topic_id]]
            heapq.heapify(heap)
            for index in unowned:
                load, member_id = heap[0]
                heapq.heapreplace(heap, (load + 1, member_id))
                self._give(member_id, topic_id, {index})

    def even_out(self) -> None:
        """Moves partitions from fuller to emptier subscribers of a topic until no move brings two nearer.

        It ends: each move lowers the sum of the squared loads.
        """
        moved = True
        while moved:
            moved = False
            for topic_id in self._topics:
                moved |= self._even_out_topic(topic_id)

    def _even_out_topic(self, topic_id: UUID) -> bool:
        takers = self._subscribers[topic_id]
        moved = False
        while True:
            givers = [id_ for id_ in takers if self.owned[id_].get(topic_id)]
            if not givers:
                return moved
            fullest = max(givers, key=lambda id_: (self._load[id_], id_))
            emptiest = min(takers, key=lambda id_: (self._load[id_], id_))
            gap = self._load[fullest] - self._load[emptiest]
            if gap < 2:
                return moved
            count = min(gap // 2, len(self.owned[fullest][topic_id]))
            self._give(emptiest, topic_id, self._take(fullest, topic_id, count))
            moved = True

    def _give(self, member_id: str, topic_id: UUID, indexes: frozenset[int] | set[int]) -> None:
        self._unowned[topic_id] -= indexes
        self.owned[member_id][topic_id] |= indexes
        self._load[member_id] += len(indexes)

    def _take(self, member_id: str, topic_id: UUID, count: int) -> set[int]:
        """The highest indexes go, so that what remains is stable under repeated calls."""
        indexes = self.owned[member_id][topic_id]
        taken = set(sorted(indexes, reverse=True)[:count])
        indexes -= taken
        self._unowned[topic_id] |= taken
        self._load[member_id] -= len(taken)
        return taken
