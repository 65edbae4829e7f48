"""Topics to archive, and what the tables then hold."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.written import new_topic, produce, producer

from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.tables.opening import open_table
from penstock.pipelines.tables.table import Outcome
from penstock.pipelines.topic_stream import TopicRun
from penstock.spark.core.topic_partition import TopicPartition
from penstock.testing import TestNode

HOUR_MS = 3_600_000
BASE_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS


def old_topic(node: TestNode, partitions: int = 1) -> str:
    """For records of any age."""
    return new_topic(node.bootstrap, partitions, config={"retention.ms": "-1"})


def stamp_ms(number: int) -> int:
    """Three records an hour."""
    return BASE_MS + number * HOUR_MS // 3


def write(node: TestNode, topic: str, partition: int, numbers: range) -> None:
    client = producer(node.bootstrap)
    for number in numbers:
        more: dict[str, Any] = {"headers": [("h", b"%d" % number)], "timestamp": stamp_ms(number)}
        produce(client, topic, [b"v%d" % number], partition, key=b"k%d" % number, **more)


def run_of(node: TestNode, topic: str, target: str, partitions: int = 2, **more: Any) -> TopicRun:
    starts = {TopicPartition(topic, partition): 0 for partition in range(partitions)}
    return TopicRun(bootstrap=node.bootstrap, topic=topic, target=Target.parse(target), starts=starts, **more)


def table_of(target: str) -> pa.Table:
    paths = [urlparse(path).path for path in open_table(Target.parse(target)).files()]
    # One by one: what a directory's name says is no column of the file.
    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])


def rows_of(target: str) -> list[dict[str, Any]]:
    return sorted(table_of(target).to_pylist(), key=lambda row: (row["partition"], row["offset"]))


def places(target: str) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows_of(target)]


class Reports:
    def __init__(self) -> None:
        self.found: list[BatchReport] = []

    def __call__(self, report: BatchReport) -> None:
        self.found.append(report)

    @property
    def outcomes(self) -> list[Outcome]:
        return [report.outcome for report in self.found]

    @property
    def rows(self) -> int:
        return sum(report.rows for report in self.found)
