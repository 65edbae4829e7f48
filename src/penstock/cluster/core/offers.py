"""What brokers can give, by weight, for each kind of place that it could go to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from penstock.cluster.core.fleet import Domain
from penstock.cluster.core.layout import Layout

# Weight and partition.
Row = tuple[int, int]

# A partition that moves has to be taken from so many lists at most. Where there are more machines, lists are by rack;
# where there are more racks, there is one. Not much is tried in vain then: the more there are, the fewer of them have
# another replica of the partition.
_MAX_LISTS = 12


class Offers:
    """Which partitions racks and machines allow to go from a broker to another depends on the other's domain alone.

    So they are sorted out once for each domain, when it is first asked for, and kept: else every move would have to
    try thousands of partitions that may not go there.
    """

    def __init__(self, layout: Layout, weights: Sequence[int], brokers: Iterable[int]) -> None:
        self._layout = layout
        self._weights = weights
        self._brokers = list(brokers)
        # None: a place of which nothing is known, so that all may go there.
        self._lists: dict[int, dict[Domain | None, list[Row]]] = {node_id: {} for node_id in self._brokers}
        self._places = _places({node_id: layout.fleet.domain(node_id) for node_id in self._brokers})
        self._movable: dict[int, set[int]] = {node_id: set() for node_id in self._brokers}
        for index in layout.movable():
            for node_id in layout.replicas[index] if weights[index] else ():
                if node_id in self._movable:
                    self._movable[node_id].add(index)

    def rows(self, giver: int, taker: int) -> Sequence[Row]:
        """Sorted; all that may go to the taker, and some that may not."""
        place = self._places[taker]
        rows = self._lists[giver].get(place)
        if rows is None:
            may_go = (index for index in self._movable[giver] if self._may_go(index, giver, place))
            rows = self._lists[giver][place] = sorted((self._weights[index], index) for index in may_go)
        return rows

    def moved(self, index: int, old: int, new: int) -> int:
        """The weight of what the layout has moved just now."""
        row = (self._weights[index], index)
        self._movable[old].remove(index)
        self._movable[new].add(index)
        for rows in self._lists[old].values():
            _set_offered(rows, row, False)
        for place, rows in self._lists[new].items():
            _set_offered(rows, row, self._may_go(index, new, place))
        return row[0]

    def offer_again(self, index: int, giver: int, old: int, new: int) -> Collection[int]:
        """Another replica of it has moved: the brokers to which this one may be able to go only since then."""
        fleet, row = self._layout.fleet, (self._weights[index], index)
        left, entered = fleet.domain(old), fleet.domain(new)
        if left == entered:
            return ()
        for place, rows in self._lists[giver].items():
            _set_offered(rows, row, self._may_go(index, giver, place))
        if _share(fleet.domain(giver), entered):
            return self._brokers
        return [node_id for node_id in self._brokers if _share(fleet.domain(node_id), left)]

    def _may_go(self, index: int, giver: int, place: Domain | None) -> bool:
        return place is None or self._layout.may_leave(index, giver, place)


def _places(domains: dict[int, Domain]) -> dict[int, Domain | None]:
    if len(set(domains.values())) <= _MAX_LISTS:
        return dict(domains)
    by_rack = {node_id: Domain(domain.rack, None) for node_id, domain in domains.items()}
    if len(set(by_rack.values())) <= _MAX_LISTS:
        return dict(by_rack)
    return dict.fromkeys(domains)


def _share(one: Domain, other: Domain) -> bool:
    return one.rack == other.rack or (one.machine is not None and one.machine == other.machine)


def _set_offered(rows: list[Row], row: Row, offered: bool) -> None:
    position = bisect_left(rows, row)
    is_there = position < len(rows) and rows[position] == row
    if offered and not is_there:
        rows.insert(position, row)
    elif is_there and not offered:
        del rows[position]
