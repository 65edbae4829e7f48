"""All rows at all ends, in this process; and a million of them, on two masters, by `make torture spark-cluster`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from tests.spark.checksums import checksum_in
from tests.spark.consumed import lag
from tests.spark.driver import Driver
from tests.spark.round_trip import PARTITIONS, Seen, Trip, round_trip
from tests.spark.standalone import WORKER_MEMORY, standalone_cluster
from tests.spark.written import new_topic

from penstock.testing import TestNode

MILLION = 1_000_000
TWO_WORKERS = "two workers"


def new_trip(node: TestNode, directory: Path, rows: int, batches: int, format: str = "penstock") -> Trip:
    topic, copy = (new_topic(node.bootstrap, PARTITIONS) for _ in range(2))
    return Trip(
        bootstrap=node.bootstrap,
        topic=topic,
        copy=copy,
        group=f"copy-{uuid4().hex[:8]}",
        checkpoint=str(directory / "checkpoint"),
        rows=rows,
        # Each row has one, and so has each marker of a transaction.
        batch_offsets=rows * 6 // 5 // batches,
        begin_ms=node.now_ms() - 2 * rows,
        format=format,
    )


def check(trip: Trip, seen: Seen) -> None:
    assert seen.made.rows == trip.rows
    assert seen.read == seen.made
    assert seen.copied == seen.made
    assert seen.batches > 1
    for topic in (trip.topic, trip.copy):
        assert checksum_in(trip.bootstrap, topic, PARTITIONS, times=trip.keeps_times) == seen.made


def test_the_same_rows_at_every_end(spark: SparkSession, spark_node: TestNode, tmp_path: Path) -> None:
    trip = new_trip(spark_node, tmp_path, 5000, batches=2)
    check(trip, round_trip(spark, trip))
    # What ends the topic are the markers of transactions: they are no rows, and no lag either.
    assert lag(trip.bootstrap, trip.group, trip.topic, PARTITIONS) == 0


@pytest.mark.torture("spark-cluster")
@pytest.mark.parametrize("master", ["local[2]", TWO_WORKERS])
def test_a_million_rows(
    spark_node: TestNode, tmp_path: Path, master: str, record_property: Callable[[str, object], None]
) -> None:
    trip = new_trip(spark_node, tmp_path, MILLION, batches=4)
    with running(master, tmp_path) as url:
        settings = {"spark.executor.memory": WORKER_MEMORY, "spark.ui.enabled": "true", "spark.ui.port": "0"}
        seen = Driver(url, tmp_path / "driver", settings).run(round_trip, trip)
    check(trip, seen)
    assert lag(trip.bootstrap, trip.group, trip.topic, PARTITIONS) == 0
    assert len(seen.tasks) == (2 if master == TWO_WORKERS else 1), "all executors have worked"
    record_property("master", master)
    for name, value in asdict(seen).items():
        record_property(name, value)


@contextmanager
def running(master: str, directory: Path) -> Iterator[str]:
    with standalone_cluster(directory / "cluster") if master == TWO_WORKERS else nullcontext(master) as url:
        yield url
