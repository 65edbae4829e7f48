"""The `uniform` assignor: as even as the subscriptions allow, moving as few partitions as that takes.

Balance comes before stickiness: no partition stays where it is if giving it to another of its subscribers would
bring two members' counts nearer to each other. With equal subscriptions that means counts differ by at most one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from uuid import UUID

from penstock.groups.core.assignors import Partitions, Subscriptions


def assign_uniform(subscriptions: Subscriptions) -> dict[str, Partitions]:
    draft = _Draft(subscriptions)
    draft.keep_targets()
    if draft.has_equal_subscriptions:
        draft.cut_to_quota()
        draft.place_unowned()
    else:
        draft.place_unowned()
        draft.even_out()
    return draft.result()


class _Draft:
    """An assignment in the making. All orders are fixed (by id), so equal input gives equal output.

    Topics go by number in here, because a UUID is slow to look up and a large group takes many thousand looks.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._members = subscriptions.members
        self._owned: dict[str, dict[int, set[int]]] = {id_: defaultdict(set) for id_ in sorted(self._members)}
        self._load = dict.fromkeys(self._owned, 0)
        takers: dict[UUID, list[str]] = defaultdict(list)
        for member_id in self._owned:
            for topic_id in self._members[member_id].topic_ids:
                takers[topic_id].append(member_id)
        # Topics with few takers first: they have the least choice of where to go.
        self._topic_ids = sorted(takers, key=lambda id_: (len(takers[id_]), id_.bytes))
        self._subscribers = [takers[topic_id] for topic_id in self._topic_ids]
        self._unowned = [set(range(subscriptions.partition_counts[topic_id])) for topic_id in self._topic_ids]

    def result(self) -> dict[str, Partitions]:
        ids = self._topic_ids
        return {
            member_id: {ids[topic]: frozenset(indexes) for topic, indexes in topics.items() if indexes}
            for member_id, topics in self._owned.items()
        }

    @property
    def has_equal_subscriptions(self) -> bool:
        return all(len(takers) == len(self._owned) for takers in self._subscribers)

    def keep_targets(self) -> None:
        numbers = {topic_id: number for number, topic_id in enumerate(self._topic_ids)}
        for member_id in self._owned:
            member = self._members[member_id]
            for topic_id, indexes in member.target.items():
                if topic_id in member.topic_ids:
                    topic = numbers[topic_id]
                    self._give(member_id, topic, indexes & self._unowned[topic])

    def cut_to_quota(self) -> None:
        """Every member gets `each`, and `extra` members one more: those that have it already, where there are such."""
        if not self._owned:
            return
        each, extra = divmod(sum(self._load.values()) + sum(map(len, self._unowned)), len(self._owned))
        for member_id in self._owned:
            quota = each
            if self._load[member_id] > each and extra:
                quota, extra = each + 1, extra - 1
            self._cut(member_id, quota)

    def _cut(self, member_id: str, quota: int) -> None:
        """Takes from the topic of which the member has most, so that topics stay spread over the members."""
        heap = [(-len(indexes), -topic) for topic, indexes in self._owned[member_id].items()]
        heapq.heapify(heap)
        taken: dict[int, int] = defaultdict(int)
        for _ in range(self._load[member_id] - quota):
            count, topic = heap[0]
            heapq.heapreplace(heap, (count + 1, topic))
            taken[-topic] += 1
        for topic, count in taken.items():
            self._take(member_id, topic, count)

    def place_unowned(self) -> None:
        for topic, unowned in enumerate(self._unowned):
            if not unowned:
                continue
            heap = [(self._load[id_], id_) for id_ in self._subscribers[topic]]
            heapq.heapify(heap)
            for index in sorted(unowned):
                load, member_id = heap[0]
                heapq.heapreplace(heap, (load + 1, member_id))
                self._give(member_id, topic, {index})

    def even_out(self) -> None:
        """Moves partitions from fuller to emptier subscribers of a topic until no move brings two nearer.

        It ends: each move lowers the sum of the squared loads.
        """
        moved = True
        while moved:
            moved = False
            for topic in range(len(self._topic_ids)):
                moved |= self._even_out_topic(topic)

    def _even_out_topic(self, topic: int) -> bool:
        takers = self._subscribers[topic]
        moved = False
        while True:
            givers = [id_ for id_ in takers if self._owned[id_].get(topic)]
            if not givers:
                return moved
            fullest = max(givers, key=lambda id_: (self._load[id_], id_))
            emptiest = min(takers, key=lambda id_: (self._load[id_], id_))
            gap = self._load[fullest] - self._load[emptiest]
            if gap < 2:
                return moved
            count = min(gap // 2, len(self._owned[fullest][topic]))
            self._give(emptiest, topic, self._take(fullest, topic, count))
            moved = True

    def _give(self, member_id: str, topic: int, indexes: frozenset[int] | set[int]) -> None:
        self._unowned[topic] -= indexes
        self._owned[member_id][topic] |= indexes
        self._load[member_id] += len(indexes)

    def _take(self, member_id: str, topic: int, count: int) -> set[int]:
        """The highest indexes go, so that what remains is stable under repeated calls."""
        indexes = self._owned[member_id][topic]
        taken = set(sorted(indexes, reverse=True)[:count])
        indexes -= taken
        self._unowned[topic] |= taken
        self._load[member_id] -= len(taken)
        return taken
