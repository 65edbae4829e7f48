from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.core.hours import HOUR_US, label
from penstock.pipelines.core.time_range import TimeRange

moments = st.integers(0, 400 * 24 * HOUR_US)
bounds = st.none() | moments


@given(moments, bounds, bounds)
def test_no_file_with_a_wanted_row_is_left_out(moment_us: int, begin_us: int | None, end_us: int | None) -> None:
    path = f"/lake/orders/hour={label(moment_us // HOUR_US)}/x.parquet"
    wanted = (begin_us is None or begin_us <= moment_us) and (end_us is None or moment_us < end_us)
    assert TimeRange(begin_us, end_us).may_hold(path) or not wanted


def test_others_are() -> None:
    times = TimeRange(5 * HOUR_US, 7 * HOUR_US)
    assert [hour for hour in range(10) if times.may_hold(f"/hour={label(hour)}/x")] == [5, 6]
    assert times.may_hold("/lake/orders/data/x.parquet")
