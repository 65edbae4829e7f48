"""`replay`: rows of a table become records of a topic again, with their keys, headers and timestamps.

All of them are one transaction of the sink: consumers that read committed records see all or none. A replay that is run
again under the same id finds that it was committed, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

from penstock.pipelines.core.own_options import OF_SINK, refuse_own
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Target
from penstock.pipelines.core.time_range import TimeRange
from penstock.pipelines.tables.opening import open_table
from penstock.spark.source import PenstockDataSource


@dataclass(frozen=True, kw_only=True)
class ReplayRun:
    bootstrap: str
    source: Target
    topic: str
    # Nobody else's, unless it is the same replay again.
    replay_id: str
    times: TimeRange = field(default_factory=TimeRange)
    # In SQL, over the table's columns.
    predicate: str | None = None
    # To the partitions that they came from, rather than where their keys belong now.
    keep_partitions: bool = False
    # More for the sink, by Spark's names.
    options: Mapping[str, str] = field(default_factory=dict)


def replay(session: SparkSession, run: ReplayRun) -> int:
    """How many records are in the topic by it, whether it sent them now or had been done before."""
    refuse_own(run.options, OF_SINK)
    session.dataSource.register(PenstockDataSource)
    files = [path for path in open_table(run.source).files() if run.times.may_hold(path)]
    if not files:
        return 0
    rows = _chosen(session.read.parquet(*files), run)
    columns = ["key", "value", "headers", "timestamp", *(["partition"] if run.keep_partitions else [])]
    counted = Observation()
    # Records of one partition are sent by one task, in their order.
    ordered = rows.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    (
        ordered.observe(counted, f.count(f.lit(1)).alias("rows"))
        .select(*columns)
        .write.format("penstock")
        .mode("append")
        .option("kafka.bootstrap.servers", run.bootstrap)
        .option("topic", run.topic)
        .option("delivery", "exactly-once")
        .option("txnAppId", run.replay_id)
        .option("txnVersion", "0")
        .option("includeTimestamp", "true")
        .options(**run.options)
        .save()
    )
    return int(counted.get["rows"])


def _chosen(table: DataFrame, run: ReplayRun) -> DataFrame:
    if run.times.begin_us is not None:
        table = table.where(f.col("timestamp") >= f.timestamp_micros(f.lit(run.times.begin_us)))
    if run.times.end_us is not None:
        table = table.where(f.col("timestamp") < f.timestamp_micros(f.lit(run.times.end_us)))
    if run.predicate is not None:
        try:
            table = table.where(run.predicate)
        except (AnalysisException, ParseException) as error:
            raise PipelineRefused(f"{run.predicate!r} does not choose rows: {error}") from None
    return table.withColumn("value", _bytes(table))


def _bytes(table: DataFrame) -> Column:
    """A value that was read as JSON is written as JSON again; absent fields were null, and are absent again."""
    if isinstance(table.schema["value"].dataType, BinaryType):
        return f.col("value")
    return f.to_json(f.col("value")).cast("binary")
