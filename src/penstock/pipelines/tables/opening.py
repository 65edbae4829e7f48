"""A table by its name. Each format's library is imported when a table of that format is."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import assert_never

import pyarrow as pa

from penstock.clock import SystemClock
from penstock.disk.local import LocalDisk
from penstock.disk.lock import DirectoryLock
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Kind, Target
from penstock.pipelines.tables.parquet import ParquetTable
from penstock.pipelines.tables.table import Compacted, Table


def open_table(target: Target, schema: pa.Schema | None = None) -> Table:
    """With a schema: made if it is not there. Without: it must be."""
    disk = LocalDisk()
    match target.kind:
        case Kind.PARQUET:
            return ParquetTable(os.path.abspath(target.where), schema, disk)
        case Kind.DELTA:
            from penstock.pipelines.tables.delta import DeltaLakeTable

            return DeltaLakeTable(os.path.abspath(target.where), schema, disk, SystemClock())
        case Kind.ICEBERG:
            from pyiceberg.catalog import load_catalog

            from penstock.pipelines.tables.iceberg import IcebergTable

            catalog, _, name = target.where.partition("/")
            try:
                loaded = load_catalog(catalog)
            except ValueError as error:
                raise PipelineRefused(
                    f"pyiceberg knows no catalog {catalog!r} ({error}): describe it in ~/.pyiceberg.yaml or in "
                    f"PYICEBERG_CATALOG__{catalog.upper()}__URI and its like"
                ) from None
            return IcebergTable(loaded, name, schema, disk)
        case _:
            assert_never(target.kind)


def compact_table(target: Target) -> Compacted:
    """One process at a time, where the format has no way to find out."""
    table = open_table(target)
    alone: AbstractContextManager[object] = nullcontext()
    if target.kind is Kind.PARQUET:
        alone = DirectoryLock.take(os.path.abspath(target.where))
    with alone:
        return table.compact()
