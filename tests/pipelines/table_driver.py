"""A driver of a pipeline, without Spark: it writes the rows of a batch as tasks would, and commits them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

from penstock.clock import SystemClock
from penstock.disk.interface import Disk
from penstock.pipelines.core.ledger import Range
from penstock.pipelines.core.names import Attempt
from penstock.pipelines.hour_files import HourFiles
from penstock.pipelines.tables.delta import DeltaLakeTable
from penstock.pipelines.tables.disk_file import DiskFile
from penstock.pipelines.tables.iceberg import IcebergTable
from penstock.pipelines.tables.parquet import ParquetTable
from penstock.pipelines.tables.table import Batch, Outcome, Table

HOUR_US = 3_600_000_000
SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
Maker = Callable[[str, Disk], Table]

_attempts = itertools.count()


def parquet(root: str, disk: Disk) -> Table:
    return ParquetTable(f"{root}/table", SCHEMA, disk)


def delta(root: str, disk: Disk) -> Table:
    return DeltaLakeTable(f"{root}/table", SCHEMA, disk, SystemClock())


def iceberg(root: str, disk: Disk) -> Table:
    catalog = load_catalog("test", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    return IcebergTable(catalog, "lake.table", SCHEMA, disk)


MAKERS: dict[str, Maker] = {"parquet": parquet, "delta": delta, "iceberg": iceberg}


def rows(offsets: Iterable[int], hour: int = 490_000) -> pa.RecordBatch:
    """Ten offsets are an hour, and belong to two tasks' files if a test wants that."""
    found = list(offsets)
    stamps = [(hour + offset // 10) * HOUR_US + offset for offset in found]
    return pa.record_batch(
        [
            pa.array([b"%d" % offset for offset in found]),
            pa.array(found, pa.int64()),
            pa.array(stamps, pa.timestamp("us", "UTC")),
            pa.array([[{"key": "k", "value": b"v"}] for _ in found], SCHEMA.field("headers").type),
        ],
        schema=SCHEMA,
    )


def written(table: Table, disk: Disk, batch_id: int, start: int, end: int, query: str = "q") -> Batch:
    """The work of two tasks on [start, end), up to the commit."""
    attempt = Attempt(query, batch_id, f"a{next(_attempts)}")
    stage = table.stage(attempt)
    files = []
    for task in range(2):
        offsets = range(start + task, end, 2)
        with HourFiles(stage, disk) as hour_files:
            if offsets:
                hour_files.add(rows(offsets))
        files += hour_files.written
    return Batch(attempt, files, [Range("orders", 0, start, end)])


def commit(table: Table, disk: Disk, batch_id: int, start: int, end: int) -> Outcome:
    return table.commit(written(table, disk, batch_id, start, end))


def offsets_in(table: Table, disk: Disk) -> list[int]:
    found: list[int] = []
    for path in table.files():
        with pq.ParquetFile(DiskFile(disk.open(urlparse(path).path))) as file:
            found += file.read(columns=["offset"]).column("offset").to_pylist()
    return sorted(found)
