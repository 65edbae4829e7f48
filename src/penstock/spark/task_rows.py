"""What a task does: the rows of one offset range, in the shape that Spark expects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.row_columns import Column
from penstock.spark.core.row_schema import columns_of
from penstock.spark.core.source_options import SourceOptions
from penstock.spark.range_reader import RangeReader
from penstock.spark.row_filter import wanted_rows
from penstock.spark.topic_offsets import client_settings


@dataclass
class RangePartition(InputPartition):
    """A task's work, as Spark carries it to an executor."""

    offset_range: OffsetRange


class TaskRows:
    """Plain and picklable: what it opens it opens in the task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """OptionError for a column that records do not have."""
        self._options = options
        self._schema = schema
        self._columns: tuple[Column, ...] = columns_of(
            (field.name, field.dataType.simpleString()) for field in schema.fields
        )

    def read(self, partition: InputPartition, filters: tuple[Filter, ...] = ()) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            # Spark's own, in place of an empty list of partitions.
            return
        reader = RangeReader(
            replace(client_settings(self._options), patience_ms=self._options.poll_timeout_ms),
            columns=self._columns,
            read_committed=self._options.read_committed,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        # Spark compares it with what it gets, down to which columns may be null.
        expected = to_arrow_schema(self._schema, timezone="UTC")
        for batch in reader.read(partition.offset_range):
            wanted = wanted_rows(batch, filters)
            if wanted.num_rows:
                yield pa.RecordBatch.from_arrays(wanted.columns, schema=expected)
