"""Filters asked of whole columns, before rows go to Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
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
)

from penstock.spark.core.filters import column_of


def wanted_rows(batch: pa.RecordBatch, filters: Iterable[Filter]) -> pa.RecordBatch:
    """`filters` are such as `PushedFilters.of_rows` gives: a row for which one has no answer is not wanted."""
    for one in filters:
        batch = batch.filter(_mask(one, batch.column(column_of(one))), null_selection_behavior="drop")
    return batch


def _mask(one: Filter, column: pa.Array) -> pa.Array:
    match one:
        case Not(child):
            return pc.and_(pc.invert(_mask(child, column)), pc.is_valid(column))
        case IsNull():
            return pc.is_null(column)
        case IsNotNull():
            return pc.is_valid(column)
        case In(_, values):
            return pc.is_in(column, value_set=pa.array(values, column.type))
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return pc.equal(column, pa.scalar(value, column.type))
        case GreaterThan(_, value):
            return pc.greater(column, pa.scalar(value, column.type))
        case GreaterThanOrEqual(_, value):
            return pc.greater_equal(column, pa.scalar(value, column.type))
        case LessThan(_, value):
            return pc.less(column, pa.scalar(value, column.type))
        case LessThanOrEqual(_, value):
            return pc.less_equal(column, pa.scalar(value, column.type))
        case _:
            raise AssertionError(f"{one} was not to be pushed")
