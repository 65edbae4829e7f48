"""A structured-streaming job as it is written for Spark's Kafka source and sink. It is told the format's name."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, sum, to_json, upper
from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True)
class Topics:
    """`orders` is what it reads."""

    servers: str
    orders: str
    lines: str
    totals: str
    group: str


def run_job(spark: SparkSession, format: str, topics: Topics, checkpoints: str) -> None:
    """Until nothing is left to read: each order as a line, with its headers, and what each customer has spent."""
    orders = (
        spark.readStream.format(format)
        .option("kafka.bootstrap.servers", topics.servers)
        .option("subscribe", topics.orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 200)
        .option("minPartitions", 4)
        .option("includeHeaders", True)
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.group.id", topics.group)
        .option("kafka.max.poll.records", 100)
        .option("fetchOffset.numRetries", 5)
        .load()
    )
    parsed = (
        orders.selectExpr("CAST(key AS STRING) AS customer", "CAST(value AS STRING) AS json", "headers")
        .withColumn("order", from_json("json", "item STRING, amount BIGINT"))
        .where("order.amount IS NOT NULL")
    )
    lines = parsed.select(col("customer").alias("key"), upper(to_json("order")).alias("value"), "headers")
    totals = (
        parsed.groupBy("customer")
        .agg(sum("order.amount").alias("total"))
        .selectExpr("customer AS key", "CAST(total AS STRING) AS value")
    )
    queries = [
        _to_topic(lines, format, topics.servers, topics.lines, f"{checkpoints}/lines").start(),
        _to_topic(totals, format, topics.servers, topics.totals, f"{checkpoints}/totals")
        .outputMode("complete")
        .start(),
    ]
    for query in queries:
        query.awaitTermination()


def _to_topic(rows: DataFrame, format: str, servers: str, topic: str, checkpoint: str) -> DataStreamWriter:
    return (
        rows.writeStream.format(format)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
