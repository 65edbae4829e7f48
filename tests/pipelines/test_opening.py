"""Tables by name, and the commands that look at them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.pipelines.table_driver import MAKERS, SCHEMA, commit, offsets_in

from penstock.disk.local import LocalDisk
from penstock.disk.lock import DirectoryLock
from penstock.errors import PenstockError
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Kind, Target
from penstock.pipelines.tables.opening import compact_table, open_table

DISK = LocalDisk()


def penstock(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With a catalog `test`, as the table driver has it: pyiceberg reads that where it starts."""
    catalog = {"TYPE": "sql", "URI": f"sqlite:///{root}/catalog.db", "WAREHOUSE": f"file://{root}"}
    environment = {f"PYICEBERG_CATALOG__TEST__{name}": value for name, value in catalog.items()}
    command = [sys.executable, "-m", "penstock", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def answer(root: Path, *arguments: str) -> Any:
    done = penstock(root, *arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", list(Kind))
def test_what_a_table_has_is_shown_and_merged(kind: Kind, tmp_path: Path) -> None:
    table = MAKERS[kind.value](str(tmp_path), DISK)
    for batch_id in range(3):
        commit(table, DISK, batch_id, 2 * batch_id, 2 * batch_id + 2)
    target = f"{kind.value}:{'test/lake.table' if kind is Kind.ICEBERG else tmp_path / 'table'}"
    assert answer(tmp_path, "ranges", target) == [
        {"topic": "orders", "partition": 0, "start": 0, "end": 6, "query": "q", "batch": 2}
    ]
    assert answer(tmp_path, "compact", target) == {"table": target, "files_before": 6, "files_after": 1}
    assert offsets_in(table, DISK) == list(range(6))


@pytest.mark.parametrize("kind", [Kind.PARQUET, Kind.DELTA])
def test_a_table_must_be_there_and_have_these_columns(kind: Kind, tmp_path: Path) -> None:
    target = Target(kind, str(tmp_path / "table"))
    with pytest.raises(PipelineRefused, match=r"there is no .* table"):
        open_table(target)
    open_table(target, SCHEMA)
    open_table(target)
    with pytest.raises(PipelineRefused, match="archive into another table"):
        open_table(target, SCHEMA.remove(0))


@pytest.mark.parametrize(
    "text", ["", "orders", "parquet:", "csv:/lake", "delta:s3://lake/orders", "iceberg:orders", "iceberg:lake/orders"]
)
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(PipelineRefused, match="is no "):
        Target.parse(text)


def test_a_catalog_that_nobody_knows() -> None:
    with pytest.raises(PipelineRefused, match="knows no catalog 'nowhere'"):
        open_table(Target.parse("iceberg:nowhere/sales.orders"), SCHEMA)


def test_one_merges_at_a_time(tmp_path: Path) -> None:
    target = Target.parse(f"parquet:{tmp_path}")
    open_table(target, SCHEMA)
    with DirectoryLock.take(str(tmp_path)), pytest.raises(PenstockError, match="in use by"):
        compact_table(target)


def test_commands_refuse_in_words(tmp_path: Path) -> None:
    refused = penstock(tmp_path, "compact", f"parquet:{tmp_path}/nothing")
    assert refused.returncode == 1
    assert "there is no Parquet table" in refused.stderr
    refused = penstock(tmp_path, "ranges", "orders")
    assert refused.returncode == 1
    assert "write parquet:PATH" in refused.stderr
