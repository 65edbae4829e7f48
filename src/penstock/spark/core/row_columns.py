"""The columns of a row, by the names that Spark's own Kafka source gives them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Column(StrEnum):
    KEY = "key"
    VALUE = "value"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TYPE = "timestampType"
    HEADERS = "headers"


# What a decoder is told to build. Constant columns are made without it.
KEYS, VALUES, OFFSETS, TIMESTAMPS, TIMESTAMP_TYPES, HEADERS = 1, 2, 4, 8, 16, 32

_BITS = {
    Column.KEY: KEYS,
    Column.VALUE: VALUES,
    Column.OFFSET: OFFSETS,
    Column.TIMESTAMP: TIMESTAMPS,
    Column.TIMESTAMP_TYPE: TIMESTAMP_TYPES,
    Column.HEADERS: HEADERS,
}


def wanted_bits(columns: Iterable[Column]) -> int:
    return sum(_BITS.get(column, 0) for column in set(columns))
