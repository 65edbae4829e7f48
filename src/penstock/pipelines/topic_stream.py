"""A topic as the beginning of a streaming query, for pipelines that end in a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.config.address import Address
from penstock.pipelines.core.own_options import OF_SOURCE, refuse_own
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Kind, Target
from penstock.pipelines.table_sink import TableSink
from penstock.spark.cluster import EARLIEST, Cluster
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.source import PenstockDataSource


@dataclass(frozen=True, kw_only=True)
class TopicRun:
    """What archive and aggregate have in common: from which topic, into which table, how often."""

    bootstrap: str
    topic: str
    target: Target
    # Of every partition: where the first run begins.
    starts: Mapping[TopicPartition, int]
    checkpoint: str | None = None
    # None: up to what is there now, and then it ends.
    every_s: float | None = None
    # Shows progress; None: nowhere but in the checkpoint.
    group: str | None = None
    # More for the source, by Spark's names.
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def checkpoint_directory(self) -> str:
        """Within a table that is a directory, so that both are kept, moved and lost together."""
        if self.checkpoint is not None:
            return self.checkpoint
        if self.target.kind is Kind.ICEBERG:
            raise PipelineRefused("an Iceberg table has no place for a checkpoint: say --checkpoint DIRECTORY")
        return f"{self.target.where}/_checkpoint"


def beginnings(bootstrap: str, topic: str) -> dict[TopicPartition, int]:
    """Where each partition begins now: `starts` for a run that is to take everything. Raises ClientFailure."""
    addresses = tuple(Address.parse(text.strip()) for text in bootstrap.split(","))
    with Cluster(ClientSettings(addresses)) as cluster:
        partitions = [partition for found in cluster.topics([topic]) for partition in found.topic_partitions]
        offsets = cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    if not partitions:
        raise PipelineRefused(f"there is no topic {topic}")
    return {partition: found.offset for partition, found in offsets.items() if found is not None}


def read_stream(session: SparkSession, run: TopicRun, starts: Mapping[TopicPartition, int]) -> DataFrame:
    """All columns. Only what transactions have committed: a table is for good."""
    refuse_own(run.options, OF_SOURCE)
    session.dataSource.register(PenstockDataSource)
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), start in starts.items():
        offsets.setdefault(topic, {})[str(partition)] = start
    options = {
        "kafka.bootstrap.servers": run.bootstrap,
        "subscribe": run.topic,
        "startingOffsets": json.dumps(offsets),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        **({"groupId": run.group} if run.group is not None else {}),
        **run.options,
    }
    return session.readStream.format("penstock").options(**options).load()


def run_into(sink: TableSink, rows: DataFrame, run: TopicRun) -> None:
    """Until it has ended, failed (PipelineRefused, OSError or Spark's error) or been interrupted."""
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", sink.checkpoint)
    if run.every_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(run.every_s * 1000)} milliseconds")
    query = writer.start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if sink.refusal is not None:
            raise sink.refusal from None
        raise
    finally:
        sink.stop()
        query.stop()
