"""`aggregate`: how many records and bytes a topic had, by window of time and by key, in a table.

It is the worked example of a pipeline of one's own: read_stream, whatever Spark can do with the rows, and a
TableSink. Rows come when their window is over, which is when a record is seen that is younger than its end and what
may be late.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.progress import Told
from penstock.pipelines.table_sink import TableSink
from penstock.pipelines.topic_stream import TopicRun, read_stream, run_into

SCHEMA = pa.schema(
    [
        # When the window begins: tables are partitioned by it.
        ("timestamp", pa.timestamp("us", "UTC")),
        ("window_end", pa.timestamp("us", "UTC")),
        ("key", pa.string()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Windows:
    """In Spark's words: `10 minutes`, and an expression over the columns of a record."""

    length: str = "1 hour"
    late: str = "10 minutes"
    key: str = "CAST(key AS STRING)"


def aggregate(session: SparkSession, run: TopicRun, windows: Windows, told: Told) -> None:
    sink = TableSink(session, run.target, SCHEMA, run.checkpoint_directory, run.starts, told, has_state=True)
    records = read_stream(session, run, sink.starts)
    try:
        counted = (
            records.withColumn("by", f.expr(windows.key).cast("string"))
            .withWatermark("timestamp", windows.late)
            .groupBy(f.window("timestamp", windows.length), "by")
            .agg(f.count(f.lit(1)).alias("messages"), f.sum(f.coalesce(f.length("value"), f.lit(0))).alias("bytes"))
            .select(
                f.col("window.start").alias("timestamp"),
                f.col("window.end").alias("window_end"),
                f.col("by").alias("key"),
                "messages",
                "bytes",
            )
        )
    except (AnalysisException, ParseException) as error:
        raise PipelineRefused(f"these windows cannot be made: {error}") from None
    run_into(sink, counted, run)
