"""What is particular to Iceberg."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from tests.disk.faults import FaultyDisk
from tests.pipelines.table_driver import commit, iceberg, offsets_in, written

from penstock.disk.local import LocalDisk
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.tables.iceberg import IcebergTable
from penstock.pipelines.tables.table import Outcome

DISK = LocalDisk()


def files_on_disk(root: Path) -> int:
    return len(list(root.rglob("data/*.parquet")))


def test_files_that_nobody_will_refer_to_are_removed(tmp_path: Path) -> None:
    table = iceberg(str(tmp_path), DISK)
    commit(table, DISK, 0, 0, 4)
    disk = FaultyDisk(LocalDisk())
    dying = iceberg(str(tmp_path), disk)
    batch = written(dying, disk, 1, 4, 8)
    # Its files are in their place, and nothing more happens.
    disk.fail("sync_directory", path_part="/data")
    with pytest.raises(OSError):
        dying.commit(batch)
    assert files_on_disk(tmp_path) == 3
    # It could still be committed.
    table.compact()
    left = files_on_disk(tmp_path)
    assert commit(table, DISK, 1, 4, 8) is Outcome.COMMITTED
    assert files_on_disk(tmp_path) == left + 2
    # Now it cannot.
    table.compact()
    assert files_on_disk(tmp_path) == left + 2
    assert offsets_in(table, DISK) == list(range(8))


def test_expired_snapshots_take_nothing_of_the_ledger(tmp_path: Path) -> None:
    table = iceberg(str(tmp_path), DISK)
    for batch_id in range(3):
        commit(table, DISK, batch_id, 4 * batch_id, 4 * batch_id + 4)
    table.compact()
    catalog = load_catalog("test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    loaded = catalog.load_table("lake.table")
    newest = loaded.current_snapshot()
    assert newest is not None
    older = [snapshot.snapshot_id for snapshot in loaded.snapshots() if snapshot.snapshot_id != newest.snapshot_id]
    loaded.maintenance.expire_snapshots().by_ids(older).commit()
    table.compact()
    # What only they referred to is gone with them.
    assert files_on_disk(tmp_path) == len(table.files())
    assert commit(table, DISK, 2, 8, 12) is Outcome.ALREADY
    assert offsets_in(table, DISK) == list(range(12))


def test_a_schema_is_the_same_down_to_its_structs(tmp_path: Path) -> None:
    catalog = load_catalog("test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")

    def opened(**fields: pa.DataType) -> None:
        schema = pa.schema({"timestamp": pa.timestamp("us", "UTC"), "value": pa.struct(fields)})
        IcebergTable(catalog, "lake.table", schema, DISK)

    opened(id=pa.int64(), tags=pa.list_(pa.string()), small=pa.int16())
    opened(id=pa.int64(), tags=pa.list_(pa.string()), small=pa.int16())
    for other in (
        {"id": pa.int64(), "tags": pa.list_(pa.string())},
        {"id": pa.int64(), "tags": pa.list_(pa.binary()), "small": pa.int16()},
        {"id": pa.int64(), "tags": pa.list_(pa.string()), "small": pa.int16(), "more": pa.int64()},
        {"id": pa.int32(), "tags": pa.list_(pa.string()), "small": pa.int16()},
    ):
        with pytest.raises(PipelineRefused, match="archive into another table"):
            opened(**other)


def test_a_name_that_merges_have(tmp_path: Path) -> None:
    table = iceberg(str(tmp_path), DISK)
    with pytest.raises(PipelineRefused, match="cannot name a query"):
        written(table, DISK, 0, 0, 1, query="compact")
