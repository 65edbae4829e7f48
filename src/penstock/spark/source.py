"""The data source `penstock`, as Spark sees it."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.batch_reader import BatchReader, FilteringBatchReader
from penstock.spark.batch_writer import BatchWriter
from penstock.spark.core.option_values import OptionError
from penstock.spark.core.row_schema import row_schema
from penstock.spark.core.sink_options import batch_sink_options, stream_sink_options
from penstock.spark.core.source_options import SourceOptions, batch_options, stream_options
from penstock.spark.stream_reader import StreamReader
from penstock.spark.stream_writer import StreamWriter


class PenstockDataSource(DataSource):
    """`spark.dataSource.register(PenstockDataSource)`, if Spark has not found it by itself."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return row_schema(include_headers=self._any_options().include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = batch_options(self.options)
        return FilteringBatchReader(options, schema) if options.filter_pushdown else BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(batch_sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(stream_sink_options(self.options), schema)

    def _any_options(self) -> SourceOptions:
        """At `load()` nobody knows yet which it will be: what neither could read is refused at once."""
        with suppress(OptionError):
            return stream_options(self.options)
        return batch_options(self.options)
