"""Pushed filters leave exactly the rows that the same filters, asked of each row by SQL's rules, would leave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.spark.core.filters import PushedFilters, push
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.row_filter import wanted_rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]

values: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["a", "b", "c"]),
    "partition": st.integers(0, 4),
    "offset": st.integers(0, 12),
    "timestamp": st.integers(-3000, 9000).map(lambda us: EPOCH + timedelta(microseconds=us)),
    "key": st.sampled_from([b"", b"k", b"kk"]),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(values)))
    value, path = values[column], (column,)
    orders = [GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual] if column != "key" else []
    plain: Filter = draw(
        st.one_of(
            *(value.map(lambda v, kind=kind: kind(path, v)) for kind in (EqualTo, *orders)),  # type: ignore[misc]
            st.lists(value, max_size=3).map(lambda vs: In(path, tuple(vs))),
        )
    )
    if isinstance(plain, EqualTo | In) and draw(st.booleans()):
        return Not(plain)
    others: list[Filter] = [plain, IsNull(path), IsNotNull(path), EqualNullSafe(path, draw(value))]
    return draw(st.sampled_from(others))


def by_sql(one: Filter, row: Row) -> bool | None:
    if isinstance(one, Not):
        inner = by_sql(one.child, row)
        return None if inner is None else not inner
    value = row[one.attribute[0]]  # type: ignore[attr-defined]
    match one:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe(_, wanted):
            return bool(value == wanted)
    if value is None:
        return None
    match one:
        case EqualTo(_, wanted):
            return bool(value == wanted)
        case In(_, several):
            return value in several
        case GreaterThan(_, wanted):
            return bool(value > wanted)
        case GreaterThanOrEqual(_, wanted):
            return bool(value >= wanted)
        case LessThan(_, wanted):
            return bool(value < wanted)
        case LessThanOrEqual(_, wanted):
            return bool(value <= wanted)
    raise AssertionError(one)


logs = st.dictionaries(
    st.builds(TopicPartition, values["topic"], values["partition"]),
    st.lists(st.tuples(st.integers(-1, 9), st.none() | values["key"]), max_size=10),
    min_size=1,
    max_size=4,
)


def read(pushed: PushedFilters, log: list[Row], partition: TopicPartition) -> list[Row]:
    """As a batch reader does: the range first, by ListOffsets' rule for times, then its rows."""
    if not pushed.wants(partition):
        return []
    begin, end = pushed.narrowed(0, len(log))
    earliest_ms = pushed.earliest_ms()
    if earliest_ms is not None:
        not_older = [row["offset"] for row in log if (row["timestamp"] - EPOCH) >= timedelta(milliseconds=earliest_ms)]
        begin = max(begin, not_older[0] if not_older else end)
    rows = [row for row in log if begin <= row["offset"] < end]
    if not rows:
        return []
    types = {"offset": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC"), "key": pa.binary()}
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in types.items()]
    batch = wanted_rows(pa.RecordBatch.from_arrays(columns, names=list(types)), pushed.of_rows())
    left = set(batch.column("offset").to_pylist())
    return [row for row in rows if row["offset"] in left]


@given(st.lists(filters(), max_size=4), logs)
def test_exactly_the_rows_that_sql_would_leave(
    wanted: list[Filter], content: dict[TopicPartition, list[tuple[int, bytes | None]]]
) -> None:
    pushed, rest = push(wanted)
    assert not rest
    for partition, records in content.items():
        log: list[Row] = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
                "timestamp": EPOCH + timedelta(milliseconds=ms),
                "key": key,
            }
            for offset, (ms, key) in enumerate(records)
        ]
        expected = [row for row in log if all(by_sql(one, row) for one in wanted)]
        assert read(pushed, log, partition) == expected


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("key", "x"), b"x"),
        EqualTo(("key",), None),
        GreaterThan(("key",), b"x"),
        In(("key",), (b"x", None)),
        Not(EqualNullSafe(("key",), b"x")),
        Not(IsNull(("key",))),
        EqualTo(("partition",), True),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),
        StringStartsWith(("topic",), "x"),
    ],
)
def test_what_is_not_understood_is_left_to_spark(one: Filter) -> None:
    assert push([one, EqualTo(("partition",), 1)]) == (PushedFilters((EqualTo(("partition",), 1),)), [one])
