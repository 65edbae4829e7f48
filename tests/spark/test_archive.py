"""Pipelines from topics to tables, in a real session."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.durability.clients import delete_topic
from tests.interop.waiting import eventually
from tests.spark.archived import BASE_MS, HOUR_MS, Reports, old_topic, places, rows_of, run_of, table_of, write
from tests.spark.reading import add_partitions
from tests.spark.written import new_topic, produce, producer
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.pipelines.aggregate import Windows, aggregate
from penstock.pipelines.archive import archive
from penstock.pipelines.core.ledger import Range
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.tables.opening import open_table
from penstock.pipelines.tables.table import Outcome
from penstock.testing import TestNode


@pytest.fixture
def topic(spark_node: TestNode) -> str:
    """Two partitions with five records each, of two hours."""
    name = old_topic(spark_node, 2)
    for partition in range(2):
        write(spark_node, name, partition, range(5))
    return name


def test_a_topic_as_it_is_and_on_it_goes(spark: SparkSession, spark_node: TestNode, topic: str, tmp_path: Path) -> None:
    target = f"delta:{tmp_path}/orders"
    run = run_of(spark_node, topic, target)
    archive(spark, run, None, Reports())
    rows = rows_of(target)
    assert [(row["partition"], row["offset"]) for row in rows] == [(p, o) for p in range(2) for o in range(5)]
    fourth = rows[3]
    assert (fourth["key"], fourth["value"], fourth["topic"]) == (b"k3", b"v3", topic)
    assert fourth["headers"] == [{"key": "h", "value": b"3"}]
    assert round(fourth["timestamp"].timestamp() * 1000) == BASE_MS + HOUR_MS
    assert len(list((tmp_path / "orders").glob("hour=*"))) == 2

    # Another partition comes, and the checkpoint gets lost: the table itself knows how far it is.
    add_partitions(spark_node, topic, 3)
    for partition in (1, 2):
        write(spark_node, topic, partition, range(5, 7))
    archive(spark, run, None, Reports())
    shutil.rmtree(tmp_path / "orders" / "_checkpoint")
    write(spark_node, topic, 0, range(7, 9))
    archive(spark, run_of(spark_node, topic, target, 3), None, Reports())
    expected = [(0, offset) for offset in range(7)] + [(1, offset) for offset in range(7)] + [(2, 0), (2, 1)]
    assert places(target) == expected
    ledgers = open_table(Target.parse(target)).ledgers().values()
    assert sorted(found for ledger in ledgers for found in ledger.ranges) == [
        Range(topic, 0, 0, 5),
        Range(topic, 0, 5, 7),
        Range(topic, 1, 0, 7),
        Range(topic, 2, 0, 2),
    ]


def test_json_with_a_table_for_the_rest(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    topic = old_topic(spark_node)
    values = [b'{"id": 1, "items": ["a"]}', b"{", b'{"id": "x"}', None, b'{"id": 2, "more": 0}', b"\xff", b""]
    # One whole value, and more.
    values += [b'{"id": 3}\n{"id": 4}', b'{"id": 5}}']
    produce(producer(spark_node.bootstrap), topic, values)
    target = f"parquet:{tmp_path}/orders"
    reports = Reports()
    archive(spark, run_of(spark_node, topic, target, 1), "id int, items array<string>", reports)
    assert [(row["offset"], row["value"]) for row in rows_of(target)] == [
        (0, {"id": 1, "items": ["a"]}),
        (3, None),
        (4, {"id": 2, "items": None}),
    ]
    no_fit = "the value is not JSON that fits the schema"
    assert [(row["offset"], row["value"], row["unreadable"]) for row in rows_of(f"{target}_unreadable")] == [
        (1, b"{", no_fit),
        (2, b'{"id": "x"}', no_fit),
        (5, b"\xff", "the value is not UTF-8"),
        (6, b"", no_fit),
        (7, b'{"id": 3}\n{"id": 4}', no_fit),
        (8, b'{"id": 5}}', no_fit),
    ]
    assert [(report.rows, report.unreadable) for report in reports.found] == [(3, 6)]
    # Whoever reads it as a directory sees the same.
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 3


def test_a_driver_that_dies_after_its_commit(
    spark: SparkSession, spark_node: TestNode, topic: str, tmp_path: Path
) -> None:
    """Spark does not know that the batch is in the table, and runs it again."""
    run = run_of(spark_node, topic, f"parquet:{tmp_path}/orders")

    def die(report: BatchReport) -> None:
        raise RuntimeError("the driver is gone")

    with pytest.raises(StreamingQueryException):
        archive(spark, run, None, die)
    write(spark_node, topic, 0, range(5, 7))
    reports = Reports()
    archive(spark, run, None, reports)
    assert reports.outcomes == [Outcome.ALREADY, Outcome.COMMITTED]
    assert places(str(run.target)) == [(0, offset) for offset in range(7)] + [(1, offset) for offset in range(5)]


def test_offsets_of_another_query_are_refused(
    spark: SparkSession, spark_node: TestNode, topic: str, tmp_path: Path
) -> None:
    """A checkpoint from before another query put the same records into the table."""
    target = f"parquet:{tmp_path}/orders"
    aside = run_of(spark_node, topic, f"parquet:{tmp_path}/other", checkpoint=f"{tmp_path}/checkpoint")
    archive(spark, aside, None, Reports())
    write(spark_node, topic, 0, range(5, 7))
    archive(spark, run_of(spark_node, topic, target), None, Reports())
    with pytest.raises(PipelineRefused, match=r"offsets 5 to 6 of .* are in the table already"):
        archive(spark, run_of(spark_node, topic, target, checkpoint=f"{tmp_path}/checkpoint"), None, Reports())
    assert len(places(target)) == 12


def test_continuously(spark: SparkSession, spark_node: TestNode, topic: str, tmp_path: Path) -> None:
    target = f"parquet:{tmp_path}/orders"
    run = run_of(spark_node, topic, target, every_s=0.2)
    reports = Reports()
    working = threading.Thread(target=archive, args=(spark, run, None, reports))
    working.start()
    try:
        eventually(lambda: reports.rows == 10, "all is in the table")
        write(spark_node, topic, 1, range(5, 6))
        eventually(lambda: reports.rows == 11, "the next is in the table")
    finally:
        for query in spark.streams.active:
            query.stop()
        working.join(30)
    assert len(places(target)) == 11


def test_another_topic_of_the_same_name(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    topic = old_topic(spark_node)
    write(spark_node, topic, 0, range(3))
    run = run_of(spark_node, topic, f"parquet:{tmp_path}/orders", 1)
    archive(spark, run, None, Reports())
    delete_topic(spark_node.bootstrap, topic)
    new_topic(spark_node.bootstrap, name=topic, config={"retention.ms": "-1"})
    write(spark_node, topic, 0, range(6))
    # It would begin where the table ends.
    with pytest.raises(PipelineRefused, match=f"a topic {topic} that was deleted since"):
        archive(spark, replace(run, checkpoint=f"{tmp_path}/another"), None, Reports())
    assert len(places(str(run.target))) == 3


def test_windows(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    topic = old_topic(spark_node)
    client = producer(spark_node.bootstrap)
    for minute, key in ((0, b"a"), (1, b"a"), (2, b"b"), (61, b"a"), (300, b"z")):
        produce(client, topic, [b"12345"], key=key, timestamp=BASE_MS + minute * 60_000)
    run = run_of(spark_node, topic, f"parquet:{tmp_path}/counts", 1)
    aggregate(spark, run, Windows(), Reports())
    rows = table_of(str(run.target)).to_pylist()
    found = {
        (round(row["timestamp"].timestamp() * 1000 - BASE_MS) // HOUR_MS, row["key"], row["messages"], row["bytes"])
        for row in rows
    }
    # The last window is not over.
    assert found == {(0, "a", 2, 10), (0, "b", 1, 5), (1, "a", 1, 5)}
    aggregate(spark, run, Windows(), Reports())
    assert table_of(str(run.target)).num_rows == 3
    with pytest.raises(PipelineRefused, match="was written with another checkpoint"):
        aggregate(spark, replace(run, checkpoint=f"{tmp_path}/another"), Windows(), Reports())
    with pytest.raises(PipelineRefused, match="these windows cannot be made"):
        aggregate(spark, run, Windows(key="no_such_column"), Reports())


def test_the_command(spark: SparkSession, spark_node: TestNode, topic: str, tmp_path: Path) -> None:
    command = ["pipeline", "run", "archive", topic, "--to", f"parquet:{tmp_path}/orders", "--from", "3"]
    command += ["--bootstrap", spark_node.bootstrap, "--conf", "spark.sql.shuffle.partitions=2", "--output", "json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["records"], said["rows"], said["batches"], said["unreadable"]) == (4, 4, 1, 0)
    assert places(f"parquet:{tmp_path}/orders") == [(0, 3), (0, 4), (1, 3), (1, 4)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing", "--to", "parquet:/x"], "there is no topic nothing"),
        (["TOPIC", "--to", "/x"], "'/x' is no table: write parquet:PATH"),
        (["TOPIC", "--to", "iceberg:lake/sales.orders"], "say --checkpoint DIRECTORY"),
        (["TOPIC", "--to", "parquet:TMP/x", "--json-schema", "id lon"], "is no schema"),
        (["TOPIC", "--to", "parquet:TMP/x", "--json-schema", "a struct<b: int not null>"], "without NOT NULL"),
        (["TOPIC", "--to", "parquet:TMP/x", "--option", "subscirbe=x"], "subscribe"),
    ],
)
def test_what_the_command_refuses(
    spark: SparkSession, spark_node: TestNode, topic: str, tmp_path: Path, arguments: list[str], words: str
) -> None:
    given = [text.replace("TOPIC", topic).replace("TMP", str(tmp_path)) for text in arguments]
    command = ["pipeline", "run", "archive", *given, "--bootstrap", spark_node.bootstrap]
    done = CliRunner().invoke(app, [*command, "--conf", "spark.sql.shuffle.partitions=2"])
    assert done.exit_code == 1
    assert words in done.stderr
