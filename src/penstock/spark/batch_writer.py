"""A batch query that writes. Exactly once: all of its rows or none; with a version once, however often it is tried."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark import task_writer
from penstock.spark.core.option_values import OptionError
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions
from penstock.spark.task_writer import TaskWriter

logger = logging.getLogger(__name__)


class BatchWriter(DataSourceArrowWriter):
    """Made once by the driver, and pickled to tasks and to whoever commits."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default)."
            )
        for warning in options.warnings:
            logger.warning(warning)
        self._options = options
        self._tasks = TaskWriter(options, schema)
        self._batch = _batch_of(options) if options.exactly_once else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._tasks.write(iterator, self._batch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        task_writer.commit(self._options, self._batch, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        task_writer.abort(self._options, self._batch)


def _batch_of(options: SinkOptions) -> QueryBatch:
    """Every try is a run of its own. Versions are counted for each topic, if there is one for all rows."""
    run = uuid4().hex
    if options.version is None:
        return QueryBatch(f"write:{run}", run, 0, once=True)
    # A topic has no colon in its name, an application may: so no two of them are one query.
    name = f"app:{options.topic or ''}:{options.version.application}"
    return QueryBatch(name, run, options.version.number)
