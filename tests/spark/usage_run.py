"""The pipeline `usage` as tests run it, and what its tables then hold."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.pipelines.core.price_book import PriceBook
from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.tables.opening import open_table
from penstock.pipelines.topic_stream import TopicRun
from penstock.pipelines.usage import UsageDone, UsageRun, UsageTables, usage
from penstock.spark.core.topic_partition import TopicPartition

PRICES = b"""
currency = "EUR"
[[price]]
from = 2020-01-01
per_million_messages_in = 1000
per_gb_in = 2000
per_million_requests = 3000
"""
PARTITIONS = 3

TENANTS = [f"tenant{number:02}" for number in range(50)]

# What senders say: by tenant and API, messages, bytes and requests.
Counts = Counter[tuple[str, str, str]]


def run_of(
    bootstrap: str, topic: str, root: Path, prices: bytes | None = PRICES, late_ms: int = 0, kind: str = "parquet"
) -> UsageRun:
    tables = UsageTables.beside(Target.parse(f"{kind}:{root}/usage"))
    starts = {TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)}
    events = TopicRun(bootstrap=bootstrap, topic=topic, target=tables.events, starts=starts)
    book = PriceBook.parse(prices) if prices is not None else None
    return UsageRun(events=events, tables=tables, reports=f"{root}/reports", book=book, late_ms=late_ms)


def go(spark: SparkSession, run: UsageRun, now_ms: int) -> UsageDone:
    def ignore(_: BatchReport) -> None: ...

    return usage(spark, run, now_ms, ignore)


def count(counts: Counts, tenant: str, api: str, messages: int, size_bytes: int, requests: int) -> None:
    counts.update(
        {
            (tenant, api, "messages"): messages,
            (tenant, api, "bytes"): size_bytes,
            (tenant, api, "requests"): requests,
        }
    )


def rows_of(target: Target) -> list[dict[str, Any]]:
    # One by one: what a directory's name says is no column of the file.
    tables = [pq.ParquetFile(urlparse(path).path).read() for path in open_table(target).files()]
    return list(pa.concat_tables(tables).to_pylist()) if tables else []


def used(rows: Iterable[dict[str, Any]]) -> Counts:
    totals: Counts = Counter()
    for row in rows:
        count(totals, row["tenant"], row["api"], row["messages"], row["bytes"], row["requests"])
    return totals


def check_bills(run: UsageRun, sent: Counts) -> None:
    """Both the table and the invoices, of all months together."""
    amounts: Counter[str] = Counter()
    for row in rows_of(run.tables.billing):
        amounts[row["tenant"]] += row["amount"]
    invoiced: Counter[tuple[str, str]] = Counter()
    for path in Path(run.reports).glob("*-totals.csv"):
        with path.open(newline="") as text:
            for line in csv.DictReader(text):
                names = ("messages_in", "messages_out", "bytes_in", "bytes_out", "requests")
                invoiced.update({(line["tenant"], name): int(line[name]) for name in names})
    for tenant in {tenant for tenant, _, _ in sent}:
        produced = [sent[tenant, "Produce", name] for name in ("messages", "bytes")]
        fetched = [sent[tenant, "Fetch", name] for name in ("messages", "bytes")]
        requests = sum(number for (of, _, name), number in sent.items() if (of, name) == (tenant, "requests"))
        assert [invoiced[tenant, name] for name in ("messages_in", "bytes_in")] == produced
        assert [invoiced[tenant, name] for name in ("messages_out", "bytes_out")] == fetched
        assert invoiced[tenant, "requests"] == requests
        # A thousandth of an euro for a message, two millionths for a byte, three thousandths for a request.
        assert amounts[tenant] * 10**6 == produced[0] * 1000 + produced[1] * 2 + requests * 3000


def contents(root: Path) -> dict[str, str]:
    """All files but Spark's memory of the stream."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and "_checkpoint" not in path.parts
    }
