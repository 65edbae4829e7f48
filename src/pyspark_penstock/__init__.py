"""How Spark finds the data source `penstock` by itself: it imports every module whose name begins with `pyspark_`.

One that fails to import disables all of them, so this one imports nothing that could: what is missing is said when the
source is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.spark.source import PenstockDataSource


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return self._source().streamWriter(schema, overwrite)

    def _source(self) -> PenstockDataSource:
        from penstock.spark.source import PenstockDataSource

        return PenstockDataSource(self.options)
