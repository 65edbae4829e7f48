"""Columns as Arrow lays them out in memory, before Arrow is told."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import pyarrow as pa

# Arrow's own from the kernel.
Memory: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

# Arrow counts with 32 bits where a binary value starts.
MAX_DATA_BYTES = 2**31 - 1


class BinaryBuffers(NamedTuple):
    # A bit per row, least first, 1 where there is a value; None: everywhere.
    validity: Memory | None
    null_count: int
    # One more than rows, of 32 bits each.
    offsets: Memory
    data: Memory


class HeaderBuffers(NamedTuple):
    """A row without headers has null, as in Spark's Kafka source."""

    validity: Memory | None
    null_count: int
    offsets: Memory
    # Headers of all rows together; their keys may be no valid UTF-8.
    header_count: int
    keys: BinaryBuffers
    values: BinaryBuffers


class ColumnBuffers(NamedTuple):
    """None: not asked for."""

    rows: int
    keys: BinaryBuffers | None
    values: BinaryBuffers | None
    # 64 bits each; timestamps in microseconds.
    offsets: Memory | None
    timestamps: Memory | None
    # 32 bits each: 0 is CreateTime, 1 is LogAppendTime.
    timestamp_types: Memory | None
    headers: HeaderBuffers | None
