"""Counts the records of a topic by key with Spark, and writes every new count exactly once to another topic.

python examples/spark_write.py [--bootstrap 127.0.0.1:9092] [--topic orders] [--target counts] [--directory /tmp/counts]

Kill it whenever you like and start it again: for readers with isolation.level=read_committed every count is there once.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery


def counting(spark: SparkSession, bootstrap: str, topic: str, target: str, directory: str) -> StreamingQuery:
    """What was read and counted is in `directory`; it belongs to this query for as long as that lives."""
    records = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    counts = records.groupBy("key").count().select("key", col("count").cast("string").alias("value"))

    def write(rows: DataFrame, batch_id: int) -> None:
        """A batch that is tried again has its number again, and is written once."""
        (
            rows.write.format("penstock")
            .mode("append")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("delivery", "exactly-once")
            .option("txnAppId", f"counts of {topic} in {directory}")
            .option("txnVersion", batch_id)
            .save()
        )

    # Only what has changed: a mode that Spark leaves to foreachBatch, for sinks in Python.
    return counts.writeStream.outputMode("update").foreachBatch(write).option("checkpointLocation", directory).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--target", default="counts")
    parser.add_argument("--directory", default="/tmp/counts")
    asked = parser.parse_args()
    spark = SparkSession.builder.appName("counts").getOrCreate()
    counting(spark, asked.bootstrap, asked.topic, asked.target, asked.directory).awaitTermination()


if __name__ == "__main__":
    main()
