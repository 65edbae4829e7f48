"""Whether every row of the source is once wherever the job puts it, and nothing else is."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlparse

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from tests.spark.consumed import consumed
from tests.spark.kills.job import ICEBERG_CATALOG, ICEBERG_TABLE, Job

from penstock.disk.local import LocalDisk
from penstock.pipelines.tables.iceberg import IcebergTable
from penstock.pipelines.tables.opening import open_table

Rows = Counter[tuple[bytes, bytes]]


def rows_of_source(job: Job, partitions: int) -> Rows:
    """Place and value."""
    found = consumed(job.bootstrap, job.source, partitions, committed=False)
    places = (f"{message.partition()}-{message.offset()}".encode() for message in found)
    return Counter(zip(places, (message.value() or b"" for message in found), strict=True))


def rows_of_target(job: Job, partitions: int) -> Rows:
    """As readers of committed records see them; also, nothing is left open."""
    found = consumed(job.bootstrap, job.target, partitions)
    return Counter((message.key() or b"", message.value() or b"") for message in found)


def rows_of_table(job: Job, kind: str) -> Rows:
    found: Rows = Counter()
    for path in _files(job, kind):
        columns = pq.ParquetFile(urlparse(path).path).read(columns=["partition", "offset", "value"]).to_pydict()
        for partition, offset, value in zip(columns["partition"], columns["offset"], columns["value"], strict=True):
            found[b"%d-%d" % (partition, offset), value] += 1
    return found


def wrong(expected: Rows, found: Rows) -> dict[str, object]:
    """What is missing, there too often or from nowhere: how much, and the first of it. Empty if all is well."""
    differences = {
        "missing": sorted(expected - found),
        "doubled": sorted(row for row in found - expected if row in expected),
        "strange": sorted(row for row in found - expected if row not in expected),
    }
    return {name: (len(rows), rows[:5]) for name, rows in differences.items() if rows}


def _files(job: Job, kind: str) -> list[str]:
    if kind != "iceberg":
        return open_table(job.table(kind)).files()
    # By a catalog that the environment of this process knows nothing of.
    return IcebergTable(load_catalog(ICEBERG_CATALOG, **job.catalog), ICEBERG_TABLE, None, LocalDisk()).files()
