"""The source in a real session: what Spark finds, plans, reads, restarts and shows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from tests.durability.clients import create_topic, write
from tests.interop.waiting import eventually
from tests.spark.reading import WAIT_S, add_partitions, committed

from examples import spark_read
from penstock.testing import TestNode

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def reader(spark: SparkSession, node: TestNode, topic: str) -> DataFrameReader:
    return spark.read.format("penstock").option("kafka.bootstrap.servers", node.bootstrap).option("subscribe", topic)


def stream(spark: SparkSession, node: TestNode, topic: str) -> DataStreamReader:
    plain = spark.readStream.format("penstock").option("kafka.bootstrap.servers", node.bootstrap)
    return plain.option("subscribe", topic).option("startingOffsets", "earliest")


def test_every_row_with_its_headers(spark: SparkSession, spark_node: TestNode) -> None:
    create_topic(spark_node.bootstrap, "rows", 12)
    producer = Producer({"bootstrap.servers": spark_node.bootstrap, "compression.type": "lz4"})
    written: Counter[tuple[object, ...]] = Counter()
    # Retention would take what is old, and brokers refuse what is of the future.
    first_ms = spark_node.now_ms() - 10_000
    for number in range(1200):
        key, value = (None if number % 7 == 0 else b"k%d" % number), (None if number % 11 == 0 else b"v%d" % number)
        headers: list[tuple[str, str | bytes | None]] = [("one", b"%d" % number), ("none", None)] if number % 3 else []
        producer.produce("rows", value, key, number % 12, timestamp=first_ms + number, headers=headers)
        written[number % 12, number // 12, first_ms + number, key, value, tuple(headers)] += 1
    assert producer.flush(WAIT_S) == 0

    frame = reader(spark, spark_node, "rows").option("includeHeaders", "true").option("minPartitions", "24").load()
    read: Counter[tuple[object, ...]] = Counter()
    for row in frame.selectExpr("*", "unix_millis(timestamp) as ms").collect():
        assert (row.topic, row.timestampType) == ("rows", 0)
        headers_read = tuple((header.key, header.value) for header in row.headers or [])
        read[row.partition, row.offset, row.ms, row.key, row.value, headers_read] += 1
    assert read == written
    assert frame.rdd.getNumPartitions() == 24


def test_less_is_read_if_less_is_asked_for(spark: SparkSession, spark_node: TestNode) -> None:
    create_topic(spark_node.bootstrap, "less", 3)
    for partition in range(3):
        write(spark_node.bootstrap, "less", [b"%d" % number for number in range(20)], partition=partition)
    totals = spark_read.totals(spark, spark_node.bootstrap, "less").collect()
    assert [tuple(row) for row in totals] == [(partition, 20, 19, 30) for partition in range(3)]

    filtered = reader(spark, spark_node, "less").option("filterPushdown", "true")
    with pytest.raises(PySparkException, match=PUSHDOWN):
        filtered.load().count()
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = filtered.load().where(
            "partition = 1 and offset >= 15 and timestamp >= '2020-01-01' and value <> X'3136'"
        )
        assert sorted(row.offset for row in frame.collect()) == [15, 17, 18, 19]
        assert frame.rdd.getNumPartitions() == 1
        assert reader(spark, spark_node, "less").load().where("partition = 1").count() == 20
    finally:
        spark.conf.unset(PUSHDOWN)


def test_errors_say_what_to_do(spark: SparkSession, spark_node: TestNode) -> None:
    with pytest.raises(AnalysisException, match="Did you mean 'startingOffsets'"):
        reader(spark, spark_node, "orders").option("startingOffset", "earliest").load()
    with pytest.raises(AnalysisException, match="starting offset can't be latest for batch queries"):
        reader(spark, spark_node, "orders").option("startingOffsets", "latest").load().count()


def test_a_stream_goes_on_where_it_was(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    create_topic(spark_node.bootstrap, "kept", 2)
    for partition in (0, 1):
        write(spark_node.bootstrap, "kept", [b"first"] * 10, partition=partition)
    spark_read.archive(spark, spark_node.bootstrap, "kept", str(tmp_path))
    assert committed(spark_node, "archive-kept", "kept", 2) == [10, 10]
    add_partitions(spark_node, "kept", 3)
    for partition in (1, 2):
        write(spark_node.bootstrap, "kept", [b"second"] * 10, partition=partition)
    spark_read.archive(spark, spark_node.bootstrap, "kept", str(tmp_path))
    assert committed(spark_node, "archive-kept", "kept", 3) == [10, 20, 10]
    rows = [(row.partition, row.offset, row.value) for row in spark.read.parquet(f"{tmp_path}/rows").collect()]
    first = [(partition, offset, "first") for partition in (0, 1) for offset in range(10)]
    second = [(1, offset, "second") for offset in range(10, 20)] + [(2, offset, "second") for offset in range(10)]
    assert sorted(rows) == sorted(first + second)


def test_an_idle_stream_has_no_lag(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    create_topic(spark_node.bootstrap, "idle", 2)
    limited = stream(spark, spark_node, "idle").option("maxOffsetsPerTrigger", "7").option("groupId", "of-idle")
    query = limited.load().writeStream.format("memory").queryName("idle").start(str(tmp_path))
    try:
        for partition in (0, 1):
            write(spark_node.bootstrap, "idle", [b"x"] * 10, partition=partition)
        query.processAllAvailable()
        assert spark.table("idle").count() == 20
        eventually(lambda: committed(spark_node, "of-idle", "idle", 2) == [10, 10], "the group has no lag")
        progress = query.lastProgress
        assert progress is not None
        assert progress.sources[0].latestOffset is not None
    finally:
        query.stop()
