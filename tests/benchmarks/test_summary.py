"""Numbers from rounds: percentiles, spreads and ratios."""

from __future__ import annotations

import pytest
from benchmarks.summary import Ratio, Spread, percentile
from hypothesis import given
from hypothesis import strategies as st


def test_percentiles_of_a_thousand_values_are_the_nearest_ranks() -> None:
    ordered = list(range(1, 1001))
    assert [percentile(ordered, rank) for rank in (50, 99, 99.9, 100)] == [500, 990, 999, 1000]


def test_a_percentile_of_few_values_is_one_of_them() -> None:
    assert percentile([3, 8], 50) == 3
    assert percentile([3, 8], 99) == 8
    assert percentile([7], 0) == 7


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@given(st.lists(st.integers(), min_size=1), st.floats(0.1, 100))
def test_at_least_the_rank_of_all_values_does_not_exceed_the_percentile(values: list[int], rank: float) -> None:
    found = percentile(sorted(values), rank)
    assert sum(value <= found for value in values) * 100 >= rank * len(values) - 1e-6


def test_a_ratio_is_of_the_medians_and_its_range_of_the_rounds_side_by_side() -> None:
    ratio = Ratio.of([10.0, 30.0, 20.0], [10.0, 10.0, 40.0])
    assert ratio is not None
    assert (ratio.ours, ratio.theirs) == (Spread(20.0, 10.0, 30.0, 3), Spread(10.0, 10.0, 40.0, 3))
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 0.5, 3.0)


def test_there_is_no_ratio_to_nothing() -> None:
    assert Ratio.of([1.0], []) is None
    assert Ratio.of([], [1.0]) is None
    assert Ratio.of([1.0, 1.0], [1.0, 0.0]) is None
