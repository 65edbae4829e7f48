"""What brokers can give, by weight, for each kind of place that it could go to."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from penstock.cluster.core.fleet import Domain
from penstock.cluster.core.layout import Layout

# Weight and partition.
Row = tuple[int, int]


class Offers:
    """Which partitions racks and machines allow to go from a broker to another depends on the other's domain alone.

    So they are sorted out once for each domain, when it is first asked for, and kept: else every move would have to
    try thousands of partitions that may not go there.
    """

    def __init__(self, layout: Layout, weights: Sequence[int], brokers: Iterable[int]) -> None:
        self._layout = layout
        self._weights = weights
        self._by_domain: dict[int, dict[Domain, list[Row]]] = {node_id: {} for node_id in brokers}
        self._movable: dict[int, set[int]] = {node_id: set() for node_id in self._by_domain}
        for index in layout.movable():
            for node_id in layout.replicas[index] if weights[index] else ():
                if node_id in self._movable:
                    self._movable[node_id].add(index)

    def rows(self, giver: int, taker: int) -> Sequence[Row]:
        """Sorted; those that the taker has already are among them."""
        domain = self._layout.fleet.domain(taker)
        rows = self._by_domain[giver].get(domain)
        if rows is None:
            may_go = (index for index in self._movable[giver] if self._layout.may_leave(index, giver, domain))
            rows = self._by_domain[giver][domain] = sorted((self._weights[index], index) for index in may_go)
        return rows

    def moved(self, index: int, giver: int, taker: int) -> int:
        """The weight of what the layout has moved just now."""
        row = (self._weights[index], index)
        self._movable[giver].remove(index)
        self._movable[taker].add(index)
        for rows in self._by_domain[giver].values():
            _remove(rows, row)
        for domain, rows in self._by_domain[taker].items():
            if self._layout.may_leave(index, taker, domain):
                insort(rows, row)
        return row[0]

    def offer_again(self, index: int, giver: int) -> list[Domain]:
        """Another replica of it has moved: the domains to which this one could not go before and can now."""
        opened = []
        row = (self._weights[index], index)
        for domain, rows in self._by_domain[giver].items():
            position = bisect_left(rows, row)
            offered = position < len(rows) and rows[position] == row
            may_go = self._layout.may_leave(index, giver, domain)
            if may_go and not offered:
                rows.insert(position, row)
                opened.append(domain)
            elif offered and not may_go:
                del rows[position]
        return opened


def _remove(rows: list[Row], row: Row) -> None:
    position = bisect_left(rows, row)
    if position < len(rows) and rows[position] == row:
        del rows[position]
