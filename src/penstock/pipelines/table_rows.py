"""A table outside a stream: its rows read, and more of them committed by one query, batch by batch."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PenstockError
from penstock.pipelines.core.ledger import Ledger, Range
from penstock.pipelines.core.names import Attempt
from penstock.pipelines.core.target import Target
from penstock.pipelines.stage_source import StageDataSource, write_staged
from penstock.pipelines.tables.opening import compact_table, open_table
from penstock.pipelines.tables.table import Batch, Outcome, Table, WrittenFile

_COMPACT_EVERY = 100


class TableRows:
    def __init__(self, session: SparkSession, target: Target, schema: pa.Schema, query: str) -> None:
        """`schema` with a column `timestamp`. The table is made if it is not there."""
        session.dataSource.register(StageDataSource)
        self._session = session
        self._target = target
        self._query = query
        self._table = open_table(target, schema)

    def ledger(self) -> Ledger | None:
        return self._table.ledgers().get(self._query)

    def read(self, columns: str) -> DataFrame:
        return read_rows(self._session, self._table, columns)

    def commit(
        self, batch_id: int, ranges: Sequence[Range], rows: DataFrame, *, even_empty: bool
    ) -> list[WrittenFile] | None:
        """One file for each hour. None: the batch was there already, or is empty and need not be there.

        What it leaves when it dies goes with the next commit.
        """
        self._table.discard(self._query)
        attempt = Attempt(self._query, batch_id, uuid.uuid4().hex)
        stage = self._table.stage(attempt)
        try:
            by_hour = rows.repartition("timestamp").sortWithinPartitions("timestamp")
            with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
                files = write_staged(by_hour, stage, None, os.path.join(directory, "note")).files
            if not files and not even_empty:
                return None
            outcome = self._table.commit(Batch(attempt, files, ranges))
        finally:
            self._table.abandon(attempt)
        if batch_id % _COMPACT_EVERY == _COMPACT_EVERY - 1:
            # Somebody else may be merging at this moment; the next time is early enough.
            with suppress(PenstockError):
                compact_table(self._target)
        return files if outcome is Outcome.COMMITTED else None


def read_rows(session: SparkSession, table: Table, columns: str) -> DataFrame:
    """`columns` as Spark writes a schema; those that it leaves out are not read."""
    files = table.files()
    return session.read.schema(columns).parquet(*files) if files else session.createDataFrame([], columns)
