"""Reads a topic with Spark: how much is in it, and then all of it, exactly once, into Parquet files.

python examples/spark_read.py [--bootstrap 127.0.0.1:9092] [--topic orders] [--directory /tmp/orders]

Run it again, and it adds what has come since. Both halves run on Spark's Kafka source too: change the format's name.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, length, max, sum


def totals(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Per partition: records, the last offset, bytes. Of the columns only those are made that it needs."""
    records = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .schema("partition int, offset long, value binary")
        .load()
    )
    return (
        records.groupBy("partition")
        .agg(count("*").alias("records"), max("offset").alias("last"), sum(length("value")).alias("bytes"))
        .orderBy("partition")
    )


def archive(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> None:
    """What is there now, in batches of at most 100,000, and how far it is shown as the group `archive-TOPIC`."""
    records = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .option("kafka.group.id", f"archive-{topic}")
        .load()
    )
    rows = records.select(col("key").cast("string"), col("value").cast("string"), "partition", "offset", "timestamp")
    query = (
        rows.writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--directory", default="/tmp/orders")
    given = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    totals(spark, given.bootstrap, given.topic).show()
    archive(spark, given.bootstrap, given.topic, given.directory)
    print(spark.read.parquet(f"{given.directory}/rows").count(), "rows in", given.directory)


if __name__ == "__main__":
    main()
