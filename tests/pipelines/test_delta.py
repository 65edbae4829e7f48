"""What is particular to Delta."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.pipelines.table_driver import SCHEMA, commit, delta, offsets_in

from penstock.clock import SystemClock
from penstock.disk.local import LocalDisk, LocalFile
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.tables.delta import DeltaLakeTable
from penstock.pipelines.tables.table import Outcome

DISK = LocalDisk()


class OvertakenDisk(LocalDisk):
    """The next batch is committed right before a ledger is first opened."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self._other = delta(root, DISK)
        self.is_overtaken = False

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        if "/_penstock/" in path and not self.is_overtaken:
            self.is_overtaken = True
            commit(self._other, DISK, 1, 4, 8)
        return super().open(path, create=create)


def test_a_ledger_that_is_replaced_while_it_is_looked_for(tmp_path: Path) -> None:
    commit(delta(str(tmp_path), DISK), DISK, 0, 0, 4)
    disk = OvertakenDisk(str(tmp_path))
    assert delta(str(tmp_path), disk).ledgers()["q"].batch_id == 1
    assert disk.is_overtaken


def test_a_ledger_that_is_missing(tmp_path: Path) -> None:
    table = delta(str(tmp_path), DISK)
    commit(table, DISK, 0, 0, 4)
    (ledger,) = (tmp_path / "table" / "_penstock").iterdir()
    ledger.unlink()
    with pytest.raises(PipelineRefused, match="restore it"):
        commit(table, DISK, 1, 4, 8)


def test_vacuum_and_checkpoints_take_nothing_of_the_ledger(tmp_path: Path) -> None:
    table = delta(str(tmp_path), DISK)
    for batch_id in range(3):
        commit(table, DISK, batch_id, 4 * batch_id, 4 * batch_id + 4)
    table.compact()
    loaded = DeltaTable(str(tmp_path / "table"))
    loaded.create_checkpoint()
    loaded.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert len(list((tmp_path / "table").rglob("hour=*/*.parquet"))) == len(table.files())
    assert commit(table, DISK, 2, 8, 12) is Outcome.ALREADY
    assert commit(table, DISK, 3, 12, 16) is Outcome.COMMITTED
    assert offsets_in(table, DISK) == list(range(16))


def test_other_types_are_refused(tmp_path: Path) -> None:
    delta(str(tmp_path), DISK)
    with pytest.raises(PipelineRefused, match="archive into another table"):
        DeltaLakeTable(f"{tmp_path}/table", SCHEMA.set(1, pa.field("offset", pa.string())), DISK, SystemClock())
