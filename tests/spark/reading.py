"""Readers as Spark makes them, without Spark: what they are asked for, what they read, and what a group shows."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from penstock.spark.source import PenstockDataSource
from penstock.spark.stream_reader import StreamReader
from penstock.testing import TestNode

WAIT_S = 20.0
NARROW = StructType().add("partition", "integer").add("offset", "long").add("value", "binary")


class Row(NamedTuple):
    partition: int
    offset: int
    value: bytes


def source(node: TestNode, **options: str) -> PenstockDataSource:
    given = {"kafka.bootstrap.servers": node.bootstrap, "fetchOffset.retryIntervalMs": "10"}
    return PenstockDataSource({**given, **{name.replace("__", "."): text for name, text in options.items()}})


def rows(reader: DataSourceReader | DataSourceStreamReader, partitions: Iterable[InputPartition]) -> list[Row]:
    """By tasks that get both as Spark carries them: pickled. In the order of partition and offset."""
    found: list[Row] = []
    for partition in partitions:
        task, work = pickle.loads(pickle.dumps((reader, partition)))
        for batch in task.read(work):
            found += [Row(**row) for row in batch.to_pylist()]
    return sorted(found)


def batch(node: TestNode, **options: str) -> list[Row]:
    reader = source(node, **options).reader(NARROW)
    return rows(reader, reader.partitions())


class Query:
    """What Spark does with a stream's reader: it keeps offsets as text, and asks for batch after batch."""

    def __init__(self, node: TestNode, checkpoint: str | None = None, **options: str) -> None:
        self._source = source(node, **options)
        reader = self._source.streamReader(NARROW)
        assert isinstance(reader, StreamReader)
        self.reader = reader
        self.checkpoint = checkpoint

    def next_batch(self, limit: ReadLimit | None = None) -> list[Row] | None:
        """None: nothing new, so that Spark would run no batch."""
        if self.checkpoint is None:
            self.checkpoint = json.dumps(self.reader.initialOffset())
        start = self.checkpoint
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit or self.reader.getDefaultReadLimit()))
        if end == start:
            return None
        found = self.read(json.loads(start), json.loads(end))
        self.checkpoint = end
        return found

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        """What a batch has, or has again."""
        return rows(self._source.streamReader(NARROW), self.reader.partitions(start, end))

    def offsets(self) -> dict[str, Any]:
        assert self.checkpoint is not None
        return {topic: row["offsets"] for topic, row in json.loads(self.checkpoint).items()}


def add_partitions(node: TestNode, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(WAIT_S)


def committed(node: TestNode, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    try:
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        return [row.offset for row in consumer.committed(wanted, timeout=WAIT_S)]
    finally:
        consumer.close()


def transaction(node: TestNode, topic: str, values: Iterable[bytes], *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": f"to-{topic}"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(WAIT_S)
    if commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)
