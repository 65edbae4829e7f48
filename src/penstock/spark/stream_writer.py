"""A streaming query that writes. Exactly once it is by (query, batch): a replayed batch has other rows in each task.

For every micro-batch Spark makes one writer for the tasks and another one to commit, so what they know of each other is
what is in the tasks' messages, and who they are is in Spark's local properties.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark import task_writer
from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions
from penstock.spark.task_writer import TaskWriter, batch_of

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
# Spark runs the jobs of a streaming query as a group, named by the run: a restarted query has another one.
_RUN_ID = "spark.jobGroup.id"


class StreamWriter(DataSourceStreamArrowWriter):
    """An output mode that would replace what was written (complete) appends, as with Kafka."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        for warning in options.warnings:
            logger.warning(warning)
        self._options = options
        self._tasks = TaskWriter(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._tasks.write(iterator, _batch() if self._options.exactly_once else None)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        task_writer.commit(self._options, batch_of(messages), messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        task_writer.abort(self._options, batch_of(messages))


def _batch() -> QueryBatch:
    context = TaskContext.get()
    names = (_QUERY_ID, _RUN_ID, _BATCH_ID)
    query, run, batch_id = (None if context is None else context.getLocalProperty(name) for name in names)
    if query is None or run is None or batch_id is None:
        raise ClientFailure(
            "delivery=exactly-once needs to know which query and batch a task is of, and Spark did not tell: "
            f"{_QUERY_ID}={query}, {_RUN_ID}={run}, {_BATCH_ID}={batch_id}"
        )
    return QueryBatch(f"stream:{query}", run, int(batch_id))
