"""Which replica of each partition should lead, so that all brokers lead alike. Costs a change of order, no copying."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.layout import Layout
from penstock.cluster.core.plan import PlacedPartition, Plan


def balance_leaders(brokers: Iterable[Broker], partitions: Iterable[PlacedPartition]) -> Plan:
    """Other preferred leaders for few partitions, until no order of replicas would make them more even.

    Partitions whose preferred leader is dead or draining stay as they are: it comes back, or its drain moves them.
    """
    layout = Layout(brokers, partitions)
    even_leaders(layout, layout.movable(), range(len(layout.partitions)))
    return layout.plan()


def even_leaders(layout: Layout, changeable: Iterable[int], counted: Iterable[int]) -> None:
    """Even out the leaders of the `counted` partitions by changes to the `changeable` ones among them."""
    leading = _Leading(layout, changeable, counted)
    # Brokers from which no path leads to one with two leaders fewer stay so: later paths end at brokers with fewer
    # leaders still, which these would have reached if such a path touched anything that they reach.
    candidates = set(layout.fleet.takers)
    while candidates:
        most = max(leading.count[node_id] for node_id in candidates)
        fullest = sorted(node_id for node_id in candidates if leading.count[node_id] == most)
        path = leading.path_down_from(fullest)
        if path:
            leading.shift(path)
        else:
            candidates.difference_update(fullest)


class _Leading:
    def __init__(self, layout: Layout, changeable: Iterable[int], counted: Iterable[int]) -> None:
        takers = layout.fleet.takers
        self._layout = layout
        self.count = dict.fromkeys(takers, 0)
        # By leader and other replica: the partitions whose leadership could go from the one to the other. Dictionaries,
        # because their order is always the same.
        self._between: dict[int, dict[int, dict[int, None]]] = {node_id: {} for node_id in takers}
        for index in counted:
            leader = layout.replicas[index][0]
            if leader in self.count:
                self.count[leader] += 1
        for index in changeable:
            self._enter(index)

    def path_down_from(self, fullest: list[int]) -> list[int]:
        """Brokers from one of these, which lead alike, to one with at least two leaders fewer, each of which can take

        a leader from the one before; empty if there is none. The shortest path, since each step is a change.
        """
        enough = self.count[fullest[0]] - 2
        came_from = {node_id: node_id for node_id in fullest}
        level = fullest
        while level:
            reached = []
            for node_id in level:
                for other, indexes in self._between[node_id].items():
                    if indexes and other not in came_from:
                        came_from[other] = node_id
                        reached.append(other)
            best = min(reached, key=lambda node_id: (self.count[node_id], node_id), default=-1)
            if best >= 0 and self.count[best] <= enough:
                return _path_to(best, came_from)
            level = reached
        return []

    def shift(self, path: list[int]) -> None:
        for old, new in pairwise(path):
            index = next(iter(self._between[old][new]))
            for other in self._layout.replicas[index][1:]:
                self._between[old].get(other, {}).pop(index, None)
            self._layout.lead(index, new)
            self._enter(index)
        self.count[path[0]] -= 1
        self.count[path[-1]] += 1

    def _enter(self, index: int) -> None:
        leader, *others = self._layout.replicas[index]
        if leader in self.count:
            for other in others:
                if other in self.count:
                    self._between[leader].setdefault(other, {})[index] = None


def _path_to(end: int, came_from: dict[int, int]) -> list[int]:
    path = [end]
    while came_from[path[-1]] != path[-1]:
        path.append(came_from[path[-1]])
    return path[::-1]
