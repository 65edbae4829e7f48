"""The end of a streaming query: its micro-batches go into a table, each once.

    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", sink.checkpoint).start()

It is what `archive` and `aggregate` end in, and any query of one's own over `format("penstock")` can: rows need a
column `timestamp`, and the query one source. See docs/pipelines.md.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PenstockError
from penstock.pipelines.checkpoint import Checkpoint
from penstock.pipelines.core.batch_ranges import batch_ranges
from penstock.pipelines.core.ledger import check_apart, ends
from penstock.pipelines.core.names import Attempt
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import BatchReport, Told
from penstock.pipelines.stage_source import REASON, StageDataSource, StagedFiles, write_staged
from penstock.pipelines.tables.opening import compact_table, open_table
from penstock.pipelines.tables.table import Batch, Outcome, Table
from penstock.spark.core.topic_partition import TopicPartition

# Small files cost readers more than merging them from time to time costs.
COMPACT_EVERY = 100
# By such words in an error Spark knows that a batch has ended because the query was stopped. It looks for them with a
# regular expression that fills its stack if they are far apart, as they are in its own errors.
_SPARKS_WORDS = "py4j.protocol.Py4JJavaError: An error occurred while calling it: java.lang.InterruptedException"


class _Stopped(Exception):
    pass


class TableSink:
    """Call it with a batch. Use it in one query at a time."""

    def __init__(
        self,
        session: SparkSession,
        target: Target,
        schema: pa.Schema,
        checkpoint: str,
        starts: Mapping[TopicPartition, int],
        told: Told,
        *,
        has_state: bool = False,
    ) -> None:
        """`starts`: where a query without a checkpoint begins; what the table has already counts for more.

        `has_state`: it holds rows back, until a window is over say. Then nobody can go on without its checkpoint.
        """
        session.dataSource.register(StageDataSource)
        self._target = target
        self._table = open_table(target, schema)
        self._unreadable: Table | None = None
        self._checkpoint = Checkpoint(session, checkpoint)
        ledgers = self._table.ledgers()
        if has_state and ledgers.keys() - {self._checkpoint.query_id()}:
            raise PipelineRefused(
                f"{target} was written with another checkpoint, which alone has what was read and is not written yet: "
                f"go on with that one instead of {checkpoint}, or use another table"
            )
        reached = ends(ledgers.values())
        self.starts = {partition: reached.get(partition, start) for partition, start in starts.items()}
        self._told = told
        self._is_stopping = False
        # What a batch was refused for, in its own words: Spark wraps what it is told in many of its own.
        self.refusal: PipelineRefused | OSError | None = None
        self._discard_leftovers(self._table)

    @property
    def checkpoint(self) -> str:
        return self._checkpoint.directory

    def keep_unreadable(self, schema: pa.Schema) -> None:
        """Rows come with columns that say whether they could be read; the others go to a table beside this one."""
        reason = pa.field(REASON, pa.string())
        self._unreadable = open_table(self._target.unreadable, schema.append(reason))
        self._discard_leftovers(self._unreadable)

    def stop(self) -> None:
        """Before the query is stopped: what then happens to the batch at hand is no failure."""
        self._is_stopping = True

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        try:
            self._take(rows, batch_id)
        except (PipelineRefused, OSError) as error:
            self.refusal = error
            raise
        except (Py4JError, PySparkException):
            if self._is_stopping:
                raise _Stopped(_SPARKS_WORDS) from None
            raise

    def _take(self, rows: DataFrame, batch_id: int) -> None:
        query = self._checkpoint.query_id()
        end = self._checkpoint.end_of(batch_id)
        if query is None or end is None:
            raise PipelineRefused(f"the checkpoint {self.checkpoint} has no batch {batch_id}: give the query this one")
        ledgers = dict(self._table.ledgers())
        known = ledgers.pop(query, None)
        if known is not None and batch_id <= known.batch_id:
            self._told(BatchReport(batch_id, Outcome.ALREADY, 0, 0, 0, 0))
            return
        ranges = batch_ranges(self._checkpoint.end_of(batch_id - 1), end, self.starts)
        topic_ids = {name: str(topic_id) for name, topic_id in end.topic_ids.items()}
        check_apart(ledgers.values(), ranges, topic_ids)
        attempt = Attempt(query, batch_id, uuid.uuid4().hex)
        try:
            staged = self._write(rows, attempt)
            outcome = self._commit(staged, Batch(attempt, staged.files, ranges, topic_ids))
        finally:
            self._table.abandon(attempt)
            if self._unreadable is not None:
                self._unreadable.abandon(attempt)
        files = [*staged.files, *staged.unreadable]
        rows_read, rows_unread = (sum(file.rows for file in found) for found in (staged.files, staged.unreadable))
        size_bytes = sum(file.size_bytes for file in files)
        self._told(BatchReport(batch_id, outcome, rows_read, rows_unread, size_bytes, len(files)))
        if batch_id % COMPACT_EVERY == COMPACT_EVERY - 1:
            self._compact()

    def _write(self, rows: DataFrame, attempt: Attempt) -> StagedFiles:
        stage = self._table.stage(attempt)
        unreadable = self._unreadable.stage(attempt) if self._unreadable is not None else None
        with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
            return write_staged(rows, stage, unreadable, os.path.join(directory, "note"))

    def _commit(self, staged: StagedFiles, batch: Batch) -> Outcome:
        """The table beside it first: if this ends in between, the batch comes again with the same rows in both."""
        if self._unreadable is not None:
            self._unreadable.commit(replace(batch, files=staged.unreadable))
        return self._table.commit(batch)

    def _discard_leftovers(self, table: Table) -> None:
        if (query := self._checkpoint.query_id()) is not None:
            table.discard(query)

    def _compact(self) -> None:
        # Somebody else may be merging at this moment; a hundred batches later is early enough.
        with suppress(PenstockError):
            compact_table(self._target)
            if self._unreadable is not None:
                compact_table(self._target.unreadable)
