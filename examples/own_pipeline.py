"""A pipeline of one's own: which pages of a web site are slow, by the minute, in a Delta table, exactly once.

python examples/own_pipeline.py [--bootstrap 127.0.0.1:9092] [--topic requests] [--table delta:/tmp/slow]

Records are JSON: {"page": "/cart", "ms": 231}. Run it again, and it adds what has come since. To look at the result:

    penstock pipeline ranges delta:/tmp/slow
    DeltaTable("/tmp/slow").to_pyarrow_table()
"""

from __future__ import annotations

import argparse

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.session import spark_session
from penstock.pipelines.table_sink import TableSink
from penstock.pipelines.topic_stream import TopicRun, beginnings, read_stream, run_into

# %% The columns of the table. One must be `timestamp`: the table is partitioned by its hour.
SCHEMA = pa.schema(
    [
        ("timestamp", pa.timestamp("us", "UTC")),
        ("page", pa.string()),
        ("requests", pa.int64()),
        ("slowest_ms", pa.int64()),
    ]
)


# %% What is done with the records: anything that Spark can. A minute is written when it is over for half a minute.
def slow_pages(records: DataFrame) -> DataFrame:
    request = f.from_json(f.col("value").cast("string"), "page string, ms long")
    return (
        records.select("timestamp", request.alias("request"))
        .where("request.page IS NOT NULL")
        .withWatermark("timestamp", "30 seconds")
        .groupBy(f.window("timestamp", "1 minute"), f.col("request.page").alias("page"))
        .agg(f.count(f.lit(1)).alias("requests"), f.max("request.ms").alias("slowest_ms"))
        .select(f.col("window.start").alias("timestamp"), "page", "requests", "slowest_ms")
    )


def say(report: BatchReport) -> None:
    print(f"batch {report.batch_id}: {report.rows} rows, {report.outcome.value}")


# %% From the topic, through that, into the table. With `every_s=60` in the run it would go on until it is stopped.
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="requests")
    parser.add_argument("--table", default="delta:/tmp/slow")
    given = parser.parse_args(arguments)
    run = TopicRun(
        bootstrap=given.bootstrap,
        topic=given.topic,
        target=Target.parse(given.table),
        starts=beginnings(given.bootstrap, given.topic),
    )
    with spark_session("slow pages", "local[*]", {}) as session:
        # Minutes that are not over are in the checkpoint alone.
        sink = TableSink(session, run.target, SCHEMA, run.checkpoint_directory, run.starts, say, has_state=True)
        run_into(sink, slow_pages(read_stream(session, run, sink.starts)), run)


if __name__ == "__main__":
    main()
