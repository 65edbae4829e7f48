"""Writes the rows of one task: Arrow batches in, record batches out, until all of them are acknowledged."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.address import Address
from penstock.spark.batch_filling import BatchFilling, batch_filling
from penstock.spark.cluster import Cluster
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import TopicMissing
from penstock.spark.core.sink_options import SinkOptions
from penstock.spark.core.sink_rows import NULL_TOPIC
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.delivery import Delivery
from penstock.spark.produce_requests import Identity, Outgoing, producer_identity
from penstock.spark.sink_columns import FilledBatch, RowRefused, SinkColumns
from penstock.wire.batch import NO_SEQUENCE, TRANSACTIONAL
from penstock.wire.records import seal_batch


class Producer:
    """For one thread. Raises ClientFailure and RowRefused; after either nothing more can be done with it.

    Its cluster is its own: answers to what it sends may be due on every connection.
    """

    def __init__(self, options: SinkOptions, *, identity: Identity | None = None, first_partition: int = 0) -> None:
        """`identity`: of a transaction; without it one is asked for, if the options want it.

        `first_partition`: where rows without a key begin. Tasks should differ in it.
        """
        self._options = options
        self._first_partition = first_partition
        self._cluster = Cluster(client_settings(options))
        self._identity = identity or self._own_identity()
        self._delivery = Delivery(
            self._cluster,
            self._identity,
            acks=options.acks,
            request_timeout_ms=options.request_timeout_ms,
            max_request_bytes=options.max_request_bytes,
        )
        self._fillings: dict[str, BatchFilling] = {}
        self._sequences: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()

    def write(self, rows: pa.RecordBatch, columns: tuple[str, ...]) -> None:
        """`columns`: which of the batch's are for the topic (core/sink_rows.py)."""
        now_ms = time.time_ns() // 1_000_000
        for topic, part in self._by_topic(rows, columns):
            filling = self._fillings.get(topic) or self._filling(topic)
            for filled in filling.append(_columns_of(part, columns), now_ms):
                self._post(topic, filled)
            if topic in self._delivery.limits:
                filling.limit(self._delivery.limits[topic])
        if sum(filling.held_bytes for filling in self._fillings.values()) > self._options.buffer_bytes:
            self._post_all()

    def finish(self) -> None:
        """All rows are acknowledged."""
        self._post_all()
        self._delivery.finish()

    def _own_identity(self) -> Identity:
        if not self._options.idempotent:
            return Identity()
        return self._cluster.patiently("getting a producer id", lambda: self._cluster.at_any(producer_identity))

    def _by_topic(self, rows: pa.RecordBatch, columns: tuple[str, ...]) -> list[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            return [(self._options.topic, rows)]
        if not rows.num_rows:
            return []
        column = rows.column("topic")
        if column.null_count:
            raise RowRefused(NULL_TOPIC)
        names = pc.unique(column).to_pylist()
        if len(names) == 1:
            return [(names[0], rows)]
        return [(name, rows.filter(pc.equal(column, name))) for name in names]

    def _filling(self, topic: str) -> BatchFilling:
        # Nothing may be due on a connection that is about to be asked for something else.
        self._delivery.finish()
        found = self._cluster.topics([topic], create=True)
        if not found:
            text = f"Topic {topic} not present in metadata"
            raise TopicMissing(f"{text}: create it, or set auto.create.topics.enable on the brokers")
        options = self._options
        filling = self._fillings[topic] = batch_filling(
            len(found[0].partitions), options.batch_bytes, options.max_request_bytes, self._first_partition
        )
        return filling

    def _post_all(self) -> None:
        for topic, filling in self._fillings.items():
            for filled in filling.take():
                self._post(topic, filled)

    def _post(self, topic: str, filled: FilledBatch) -> None:
        partition = TopicPartition(topic, filled.partition)
        producer_id, producer_epoch, transactional_id = self._identity
        sequence = self._sequences.get(partition, 0) if producer_id >= 0 else NO_SEQUENCE
        data = seal_batch(
            filled.payload,
            filled.record_count,
            compression=self._options.compression,
            attributes=TRANSACTIONAL if transactional_id is not None else 0,
            base_timestamp_ms=filled.base_timestamp_ms,
            max_timestamp_ms=filled.max_timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        outgoing = Outgoing(partition, data, filled.record_count, sequence)
        self._sequences[partition] = outgoing.next_sequence
        self._delivery.post(outgoing)


def client_settings(options: SinkOptions) -> ClientSettings:
    return ClientSettings(
        bootstrap=tuple(Address.parse(server) for server in options.bootstrap),
        client_id=options.client_id,
        security=options.security,
        request_timeout_ms=options.request_timeout_ms,
        patience_ms=options.delivery_timeout_ms,
    )


def _columns_of(rows: pa.RecordBatch, columns: tuple[str, ...]) -> SinkColumns:
    def column(name: str, kind: pa.DataType) -> Any:
        if name not in columns:
            return None
        found = rows.column(name)
        return found if found.type == kind else found.cast(kind)

    return SinkColumns(
        keys=column("key", pa.binary()),
        values=column("value", pa.binary()),
        partitions=column("partition", pa.int32()),
        timestamps_ms=_timestamps_of(rows) if "timestamp" in columns else None,
        headers=_headers_of(rows.column("headers")) if "headers" in columns else None,
    )


def _headers_of(column: pa.Array) -> pa.ListArray:
    """Spark has wider types for more than 2 GiB of a column, if it is told to."""
    kind = column.type
    if pa.types.is_list(kind) and [field.type for field in kind.value_type] == [pa.string(), pa.binary()]:
        return column
    return column.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


def _timestamps_of(rows: pa.RecordBatch) -> pa.Int64Array:
    """Spark's are microseconds, Kafka's milliseconds."""
    found = rows.column("timestamp").cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    earliest = pc.min(found).as_py()
    if earliest is not None and earliest < 0:
        raise RowRefused(f"Invalid timestamp: {earliest}. Timestamp should always be non-negative or null.")
    return found
