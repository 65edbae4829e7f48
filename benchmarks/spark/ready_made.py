"""A data source whose rows are there before they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

_TASKS = 12
# As many as the data source `penstock` puts into a batch.
_BATCH_ROWS, _BATCH_BYTES = 64 * 1024, 16 * 1024 * 1024
_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"


class ReadyMadeSource(DataSource):
    """Options `rows` and `rowBytes`; the columns of Spark's Kafka source, or some of them."""

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(schema, int(self.options["rows"]), int(self.options["rowBytes"]))


@dataclass
class _Rows(InputPartition):
    count: int


class _Reader(DataSourceReader):
    def __init__(self, schema: StructType, rows: int, row_bytes: int) -> None:
        self._schema = schema
        self._rows = rows
        self._row_bytes = row_bytes

    def partitions(self) -> list[InputPartition]:
        each, more = divmod(self._rows, _TASKS)
        return [_Rows(each + (task < more)) for task in range(_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Rows)
        batch = self._batch(min(_BATCH_ROWS, _BATCH_BYTES // self._row_bytes, partition.count))
        left = partition.count
        while left:
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)

    def _batch(self, rows: int) -> pa.RecordBatch:
        columns = {
            "key": pa.nulls(rows, pa.binary()),
            "value": pa.array([bytes(self._row_bytes)] * rows, pa.binary()),
            "topic": pa.repeat("bench", rows),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * rows, pa.int32()),
        }
        arrays = [columns[name] for name in self._schema.fieldNames()]
        return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(self._schema, timezone="UTC"))
