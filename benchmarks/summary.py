"""From rounds to one number: percentiles, medians with their spread, ratios of two sides."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec


def percentile(ordered: Sequence[float], rank: float) -> float:
    """The smallest value that at least `rank` percent of the sorted values do not exceed (nearest rank).

    Nearest rank, not interpolation: every percentile reported is a latency that some message really had.
    """
    if not ordered:
        raise ValueError("no values, no percentile")
    return ordered[max(0, math.ceil(len(ordered) * rank / 100) - 1)]


class Spread(msgspec.Struct, frozen=True):
    """The median of the rounds, and the lowest and highest round."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median=statistics.median(values), low=min(values), high=max(values), rounds=len(values))


class Ratio(msgspec.Struct, frozen=True):
    """Ours over theirs: of the medians, and the lowest and highest of the rounds measured side by side."""

    ours: Spread
    theirs: Spread
    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
        """None where the other side is zero: CPU below the clock's resolution has no ratio."""
        if not ours or not theirs or not all(theirs):
            return None
        paired = [mine / other for mine, other in zip(ours, theirs, strict=False)]
        mine, other = Spread.of(ours), Spread.of(theirs)
        return cls(ours=mine, theirs=other, value=mine.median / other.median, low=min(paired), high=max(paired))
