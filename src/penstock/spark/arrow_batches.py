"""Columns as Arrow's record batches, of exactly the types that Spark expects of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import pyarrow as pa

from penstock.spark.column_buffers import BinaryBuffers, ColumnBuffers, HeaderBuffers, Memory
from penstock.spark.core.row_columns import Column
from penstock.spark.core.topic_partition import TopicPartition

T = TypeVar("T")

_HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
_TYPES: dict[Column, pa.DataType] = {
    Column.KEY: pa.binary(),
    Column.VALUE: pa.binary(),
    Column.TOPIC: pa.string(),
    Column.PARTITION: pa.int32(),
    Column.OFFSET: pa.int64(),
    Column.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Column.TIMESTAMP_TYPE: pa.int32(),
    # The name of an element is Spark's.
    Column.HEADERS: pa.list_(pa.field("element", pa.struct(_HEADER_FIELDS))),
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """What Spark makes of the same columns; it compares the two, and all may be null."""
    return pa.schema([pa.field(str(column), _TYPES[column]) for column in columns])


class ArrowBatches:
    """Makes record batches of one partition's columns."""

    def __init__(self, columns: Sequence[Column], topic_partition: TopicPartition) -> None:
        self._columns = tuple(columns)
        self._schema = arrow_schema(columns)
        self._topic_partition = topic_partition
        # What is the same in every row is made once, as long as it was ever needed.
        self._topics = pa.array([], pa.string())
        self._partitions = pa.array([], pa.int32())

    def batch(self, buffers: ColumnBuffers) -> pa.RecordBatch:
        """It shares their memory."""
        arrays = [self._array(column, buffers) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, column: Column, buffers: ColumnBuffers) -> pa.Array:
        rows = buffers.rows
        match column:
            case Column.KEY:
                return _binary_array(_present(buffers.keys), rows)
            case Column.VALUE:
                return _binary_array(_present(buffers.values), rows)
            case Column.TOPIC:
                if len(self._topics) < rows:
                    self._topics = pa.repeat(self._topic_partition.topic, rows)
                return self._topics[:rows]
            case Column.PARTITION:
                if len(self._partitions) < rows:
                    self._partitions = pa.repeat(pa.scalar(self._topic_partition.partition, pa.int32()), rows)
                return self._partitions[:rows]
            case Column.OFFSET:
                return _fixed_array(column, buffers.offsets, rows)
            case Column.TIMESTAMP:
                return _fixed_array(column, buffers.timestamps, rows)
            case Column.TIMESTAMP_TYPE:
                return _fixed_array(column, buffers.timestamp_types, rows)
            case Column.HEADERS:
                return _headers_array(_present(buffers.headers), rows)


def _present(buffers: T | None) -> T:
    assert buffers is not None, "a column was not asked for"
    return buffers


def _fixed_array(column: Column, memory: Memory | None, rows: int) -> pa.Array:
    return pa.Array.from_buffers(_TYPES[column], rows, [None, pa.py_buffer(_present(memory))], 0)


def _binary_array(buffers: BinaryBuffers, rows: int) -> pa.Array:
    validity = _validity(buffers)
    return pa.Array.from_buffers(
        pa.binary(), rows, [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)], buffers.null_count
    )


def _validity(buffers: BinaryBuffers | HeaderBuffers) -> pa.Buffer | None:
    return None if buffers.validity is None else pa.py_buffer(buffers.validity)


def _headers_array(buffers: HeaderBuffers, rows: int) -> pa.Array:
    keys = _text_array(_binary_array(buffers.keys, buffers.header_count))
    values = _binary_array(buffers.values, buffers.header_count)
    pairs = pa.StructArray.from_arrays([keys, values], fields=_HEADER_FIELDS)
    return pa.Array.from_buffers(
        _TYPES[Column.HEADERS],
        rows,
        [_validity(buffers), pa.py_buffer(buffers.offsets)],
        buffers.null_count,
        children=[pairs],
    )


def _text_array(raw: pa.Array) -> pa.Array:
    """Nothing makes a producer send valid UTF-8: what is none is replaced, as Java's clients do."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
