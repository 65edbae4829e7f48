"""Rows on their way into a topic, as Arrow columns."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class SinkColumns(NamedTuple):
    """Of one topic; all as long as `values`. None: no row has it."""

    keys: pa.BinaryArray | None
    values: pa.BinaryArray
    # As the rows want it; null: by the key, or anywhere.
    partitions: pa.Int32Array | None
    timestamps_ms: pa.Int64Array | None
    headers: pa.ListArray | None


class FilledBatch(NamedTuple):
    """Records as they are in a batch, without its header."""

    partition: int
    payload: bytearray
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


class RowRefused(ValueError):
    """A row that its topic does not take."""
