"""The part of a write that runs in tasks, many at a time and on any host."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.cluster import Cluster
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions
from penstock.spark.core.sink_rows import sink_columns
from penstock.spark.produce_requests import Identity
from penstock.spark.producer import Producer, client_settings
from penstock.spark.query_client import QueryClient
from penstock.units import SECOND_MS
from penstock.wire.query_messages import Attempt

logger = logging.getLogger(__name__)

_COURTESY_MS = 5 * SECOND_MS


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver. `batch`: if it is written exactly once. `attempt`: unless there was nothing to

    write; it is open, and only the driver commits it.
    """

    batch: QueryBatch | None = None
    attempt: Attempt | None = None


class TaskWriter:
    """Plain and picklable."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """OptionError for rows that no topic takes."""
        self._options = options
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        self._columns = sink_columns(fields, topic=options.topic, include_timestamp=options.include_timestamp)

    def write(self, batches: Iterable[pa.RecordBatch], batch: QueryBatch | None) -> Written:
        """`batch`: of which these rows are a part, written exactly once; None: at least once."""
        rows = (each for each in batches if each.num_rows)
        if batch is None:
            self._write_all(rows, None)
            return Written()
        first = next(rows, None)
        if first is None:
            return Written(batch)
        with Cluster(client_settings(self._options)) as cluster:
            attempt = QueryClient(cluster, self._options.client_id).open(batch, self._options.transaction_timeout_ms)
        if attempt is None:
            # Committed before: the rows are there. They are let go by, because Spark waits for a reader.
            for _ in rows:
                pass
            return Written(batch)
        self._write_in(attempt, chain((first,), rows))
        return Written(batch, attempt)

    def _write_in(self, attempt: Attempt, rows: Iterator[pa.RecordBatch]) -> None:
        identity = Identity(attempt.producer_id, attempt.producer_epoch, attempt.transactional_id)
        is_written = False
        try:
            self._write_all(rows, identity)
            is_written = True
        finally:
            if not is_written:
                with Cluster(_briefly(self._options)) as cluster:
                    QueryClient(cluster, self._options.client_id).leave(attempt)

    def _write_all(self, batches: Iterator[pa.RecordBatch], identity: Identity | None) -> None:
        first = next(batches, None)
        if first is None:
            return
        with Producer(self._options, identity=identity, first_partition=_task_number()) as producer:
            for batch in chain((first,), batches):
                producer.write(batch, self._columns)
            producer.finish()


def commit(options: SinkOptions, batch: QueryBatch | None, messages: Sequence[WriterCommitMessage | None]) -> None:
    """The driver's part: all that tasks have written is read from now on, or was before."""
    if batch is None:
        return
    attempts = tuple(each.attempt for each in messages if isinstance(each, Written) and each.attempt is not None)
    with Cluster(client_settings(options)) as cluster:
        is_new = QueryClient(cluster, options.client_id).commit(batch, attempts)
    if not is_new:
        logger.warning("%s was committed before: nothing was written now", batch)


def abort(options: SinkOptions, batch: QueryBatch | None) -> None:
    """What tasks have written so far is aborted; if nobody can be told, it is by its time-out or the next run."""
    if batch is None:
        return
    try:
        with Cluster(_briefly(options)) as cluster:
            QueryClient(cluster, options.client_id).abort(batch)
    except ClientFailure as error:
        logger.warning("%s", error)


def batch_of(messages: Sequence[WriterCommitMessage | None]) -> QueryBatch | None:
    return next((each.batch for each in messages if isinstance(each, Written)), None)


def _briefly(options: SinkOptions) -> ClientSettings:
    """For what is only a courtesy: whoever has failed has waited already."""
    return replace(client_settings(options), patience_ms=min(_COURTESY_MS, options.delivery_timeout_ms))


def _task_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
