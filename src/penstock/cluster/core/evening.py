"""Moving replicas one by one from brokers that hold much to brokers that hold little, as long as it helps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from penstock.cluster.core.layout import Layout
from penstock.cluster.core.offers import Offers

_BEYOND = float("inf")


class Wanted(NamedTuple):
    """What should go from one broker to another: up to `limit`; if no pair of brokers has anything within its limit,

    up to `cap`. The least from `ideal` on comes first, then the most below it.
    """

    ideal: float
    limit: float
    cap: float


class Policy(Protocol):
    def wanted(self, giver_load: int, taker_load: int, replicas_apart: int) -> Wanted | None:
        """None: nothing should go between brokers with these loads; the giver has so many replicas more.

        When the giver has less and the taker has more, then limit and cap are no higher, and None stays None. Within
        the limit neither passes the mean load; within the cap the two come closer together, so that moving ends.
        """


class Evening:
    """Loads are the sums of the partitions' weights by broker. The end is where no single move that the policy wants

    is possible. That depends on where replicas are and not on how they got there: planning from the end on finds
    nothing.
    """

    def __init__(
        self, layout: Layout, weights: Sequence[int], givers: Collection[int], takers: Collection[int]
    ) -> None:
        """A partition of weight 0 stays where it is."""
        self._layout = layout
        self.load = dict.fromkeys(sorted({*givers, *takers}), 0)
        for index, replicas in enumerate(layout.replicas):
            for node_id in replicas:
                if node_id in self.load:
                    self.load[node_id] += weights[index]
        self.mean = sum(self.load.values()) / len(self.load)
        self._offers = Offers(layout, weights, self.load)
        self._within_limit = _OpenPairs(givers, takers)
        self._within_cap = _OpenPairs(givers, takers)

    def run(self, policy: Policy) -> None:
        while self._move_one(policy, self._within_limit) or self._move_one(policy, self._within_cap):
            pass

    def _move_one(self, policy: Policy, pairs: _OpenPairs) -> bool:
        """Between the brokers that are furthest apart, if possible."""
        for giver in sorted(pairs.givers(), key=self.load.__getitem__, reverse=True):
            for taker in sorted(pairs.takers(giver), key=lambda node_id: (self.load[node_id], node_id)):
                index = self._candidate(policy, giver, taker, pairs is self._within_cap)
                if index is not None:
                    self._move(index, giver, taker)
                    return True
                pairs.close(giver, taker)
        return False

    def _candidate(self, policy: Policy, giver: int, taker: int, up_to_cap: bool) -> int | None:
        if self.load[giver] <= self.load[taker]:
            return None
        replicas_apart = self._layout.replicas_on[giver] - self._layout.replicas_on[taker]
        wanted = policy.wanted(self.load[giver], self.load[taker], replicas_apart)
        if wanted is None:
            return None
        rows = self._offers.rows(giver, taker)
        first, end = 0, bisect_right(rows, (wanted.limit, _BEYOND))
        if up_to_cap:
            first, end = end, bisect_right(rows, (wanted.cap, _BEYOND))
        start = min(max(first, bisect_left(rows, (wanted.ideal, -1))), end)
        for position in chain(range(start, end), range(start - 1, first - 1, -1)):
            index = rows[position][1]
            if self._layout.may_replace(index, giver, taker):
                return index
        return None

    def _move(self, index: int, giver: int, taker: int) -> None:
        self._layout.replace(index, giver, taker)
        weight = self._offers.moved(index, giver, taker)
        self.load[giver] -= weight
        self.load[taker] += weight
        offered_again = [
            (other, self._offers.offer_again(index, other, giver, taker))
            for other in self._layout.replicas[index]
            if other != taker and other in self.load
        ]
        for pairs in (self._within_limit, self._within_cap):
            # Within the limit only those above the mean give, and only those below it take.
            if pairs is self._within_cap or self.load[taker] > self.mean:
                pairs.reopen_giver(taker)
            if pairs is self._within_cap or self.load[giver] < self.mean:
                pairs.reopen_taker(giver)
            for other, possible in offered_again:
                pairs.reopen(other, possible)


class _OpenPairs:
    """Givers and takers between which a move may be possible. Without it each move would search all pairs again.

    A closed pair stays closed while its giver only gives and its taker only takes (see `Policy`).
    """

    def __init__(self, givers: Iterable[int], takers: Iterable[int]) -> None:
        self._all_takers = frozenset(takers)
        self._takers = {giver: set(self._all_takers) - {giver} for giver in sorted(givers)}

    def givers(self) -> list[int]:
        return [giver for giver, takers in self._takers.items() if takers]

    def takers(self, giver: int) -> Collection[int]:
        return self._takers[giver]

    def reopen(self, giver: int, takers: Collection[int]) -> None:
        if giver in self._takers:
            self._takers[giver] |= self._all_takers.intersection(takers) - {giver}

    def close(self, giver: int, taker: int) -> None:
        self._takers[giver].discard(taker)

    def reopen_giver(self, giver: int) -> None:
        if giver in self._takers:
            self._takers[giver] = set(self._all_takers) - {giver}

    def reopen_taker(self, taker: int) -> None:
        if taker in self._all_takers:
            for giver, takers in self._takers.items():
                if giver != taker:
                    takers.add(taker)
