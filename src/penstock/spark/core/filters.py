"""Filters of a batch query that need not be left to Spark: what they leave out is not read, or not handed over.

What is pushed is pushed wholly: Spark does not look at it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

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

from penstock.spark.core.topic_partition import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TYPES: dict[str, type] = {"topic": str, "partition": int, "offset": int, "timestamp": datetime, "key": bytes}
_COMPARISONS = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """All of them hold for every row that is wanted. Plain and picklable."""

    filters: tuple[Filter, ...] = ()

    def wants(self, partition: TopicPartition) -> bool:
        """Whether the log of this partition can have a row that is wanted."""
        return all(_holds(one, partition.topic) for one in self._on("topic")) and all(
            _holds(one, partition.partition) for one in self._on("partition")
        )

    def narrowed(self, begin: int, end: int) -> tuple[int, int]:
        """The part of [begin, end) outside of which no offset is wanted; it may be empty."""
        for one in self._on("offset"):
            lowest, highest = _bounds(one)
            begin = begin if lowest is None else max(begin, lowest)
            end = end if highest is None else min(end, highest + 1)
        return begin, max(begin, end)

    def earliest_ms(self) -> int | None:
        """No older record is wanted.

        There is no `latest_ms`: times in a log need not be in order, so behind the first record that is too late there
        may be others that are not.
        """
        lowest_us = [lowest for one in self._on("timestamp") if (lowest := _bounds(one)[0]) is not None]
        return -(-max(lowest_us) // 1000) if lowest_us and max(lowest_us) >= 0 else None

    def of_rows(self) -> tuple[Filter, ...]:
        """Those that are still to be asked of each row."""
        by_offset = [one for one in self._on("offset") if not isinstance(one, _COMPARISONS)]
        by_value = [one for one in [*by_offset, *self._on("timestamp")] if not isinstance(one, IsNotNull)]
        return (*self._on("key"), *by_value)

    def _on(self, column: str) -> list[Filter]:
        return [one for one in self.filters if column_of(one) == column]


def push(filters: Iterable[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """What can be pushed, and what Spark must look at."""
    offered = list(filters)
    taken = [one for one in offered if _is_understood(one)]
    return PushedFilters(tuple(taken)), [one for one in offered if not _is_understood(one)]


def column_of(one: Filter) -> str:
    """Of a filter that was pushed."""
    plain = one.child if isinstance(one, Not) else one
    return ".".join(getattr(plain, "attribute", ()))


def _is_understood(one: Filter) -> bool:
    """By column and type of value. Negations only where a row without a value is left out by both, as SQL has it."""
    if isinstance(one, Not):
        return isinstance(one.child, EqualTo | In) and _is_understood(one.child)
    kind = _TYPES.get(column_of(one))
    if kind is None:
        return False
    match one:
        case IsNull() | IsNotNull():
            return True
        case In(_, values):
            return all(_is_of(kind, value) for value in values)
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return _is_of(kind, value)
        case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            return kind is not bytes and _is_of(kind, one.value)
        case _:
            return False


def _is_of(kind: type, value: Any) -> bool:
    if kind is datetime:
        return isinstance(value, datetime) and value.tzinfo is not None
    return isinstance(value, kind) and not isinstance(value, bool)


def _holds(one: Filter, value: str | int) -> bool:
    """Of a topic or a partition, which no row lacks."""
    match one:
        case Not(child):
            return not _holds(child, value)
        case IsNull():
            return False
        case IsNotNull():
            return True
        case In(_, values):
            return value in values
        case EqualTo(_, wanted) | EqualNullSafe(_, wanted):
            return bool(value == wanted)
        case GreaterThan(_, wanted):
            return bool(value > wanted)
        case GreaterThanOrEqual(_, wanted):
            return bool(value >= wanted)
        case LessThan(_, wanted):
            return bool(value < wanted)
        case LessThanOrEqual(_, wanted):
            return bool(value <= wanted)
        case _:
            return True


def _bounds(one: Filter) -> tuple[int | None, int | None]:
    """The lowest and the highest number that can be wanted; of times in microseconds."""
    match one:
        case IsNull() | In(_, ()):
            return 0, -1
        case In(_, values):
            numbers = [_number(value) for value in values]
            return min(numbers), max(numbers)
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return _number(value), _number(value)
        case GreaterThan(_, value):
            return _number(value) + 1, None
        case GreaterThanOrEqual(_, value):
            return _number(value), None
        case LessThan(_, value):
            return None, _number(value) - 1
        case LessThanOrEqual(_, value):
            return None, _number(value)
        case _:
            return None, None


def _number(value: int | datetime) -> int:
    return value if isinstance(value, int) else (value - _EPOCH) // _MICROSECOND
