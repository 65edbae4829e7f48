"""From a table back to a topic."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.archived import HOUR_MS, Reports, old_topic, run_of, stamp_ms, write
from tests.spark.written import produce, producer

from penstock.pipelines.archive import archive
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.time_range import TimeRange
from penstock.pipelines.replay import ReplayRun, replay
from penstock.pipelines.topic_stream import TopicRun
from penstock.testing import TestNode


def replay_of(run: TopicRun, topic: str, **more: Any) -> ReplayRun:
    return ReplayRun(bootstrap=run.bootstrap, source=run.target, topic=topic, replay_id=f"to-{topic}", **more)


def records(spark: SparkSession, node: TestNode, topic: str) -> list[tuple[Any, ...]]:
    rows = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
        .orderBy("partition", "offset")
        .selectExpr("partition", "key", "value", "headers", "unix_millis(timestamp) AS stamp")
        .collect()
    )
    return [
        (
            row.partition,
            bytes(row.key),
            bytes(row.value),
            [(header.key, bytes(header.value)) for header in row.headers or []],
            row.stamp,
        )
        for row in rows
    ]


def expected(number: int, partition: int = 0) -> tuple[Any, ...]:
    return (partition, b"k%d" % number, b"v%d" % number, [("h", b"%d" % number)], stamp_ms(number))


def test_an_hour_of_it(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    source, target = old_topic(spark_node, 2), old_topic(spark_node, 1)
    write(spark_node, source, 0, range(6))
    write(spark_node, source, 1, range(3, 9))
    run = run_of(spark_node, source, f"delta:{tmp_path}/table")
    archive(spark, run, None, Reports())
    times = TimeRange(stamp_ms(3) * 1000, (stamp_ms(3) + HOUR_MS) * 1000)
    chosen = replay_of(run, target, times=times, predicate="partition = 1 AND value <> 'v4'")
    assert replay(spark, chosen) == 2
    assert records(spark, spark_node, target) == [expected(3), expected(5)]
    # The same one again: it is there.
    replay(spark, chosen)
    assert len(records(spark, spark_node, target)) == 2


def test_partitions_and_json(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    source, target = old_topic(spark_node, 2), old_topic(spark_node, 2)
    client = producer(spark_node.bootstrap)
    for partition in range(2):
        produce(client, source, [b'{"id":%d}' % partition], partition, key=b"same", timestamp=stamp_ms(0))
    run = run_of(spark_node, source, f"parquet:{tmp_path}/table")
    archive(spark, run, "id int, name string", Reports())
    assert replay(spark, replay_of(run, target, keep_partitions=True)) == 2
    assert records(spark, spark_node, target) == [
        (partition, b"same", b'{"id":%d}' % partition, [], stamp_ms(0)) for partition in range(2)
    ]


def test_what_chooses_nothing(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    source = old_topic(spark_node)
    write(spark_node, source, 0, range(2))
    run = run_of(spark_node, source, f"parquet:{tmp_path}/table", 1)
    archive(spark, run, None, Reports())
    moment_us = round(datetime(2200, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert replay(spark, replay_of(run, source, times=TimeRange(moment_us))) == 0
    with pytest.raises(PipelineRefused, match="does not choose rows"):
        replay(spark, replay_of(run, source, predicate="nothing = 1"))
