"""What a task writes: one Parquet file per hour of its rows' timestamps.

Rows come in the order of the log, so a task mostly has one hour at hand. One with timestamps of many hours, by a
producer's fault or wish, has at most `MOST_OPEN` files open: then the one that was used longest ago is finished, and
its hour may get another file.
"""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.disk.interface import Disk
from penstock.pipelines.core import hours
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.tables.disk_file import DiskFile
from penstock.pipelines.tables.schemas import in_utc
from penstock.pipelines.tables.table import WrittenFile
from penstock.units import MIB

MOST_OPEN = 64
# Spark brings rows in small batches, and a row group for each would make large files that are slow to read.
_ROW_GROUP_BYTES = 8 * MIB
# Of all open files together.
_PENDING_BYTES = 64 * MIB
TIMESTAMP = "timestamp"


class HourFiles:
    """A context manager: files count when it ended without an error, and `written` tells which."""

    def __init__(self, directory: str, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._open: dict[int, _OneFile] = {}
        self.written: list[WrittenFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files = list(self._open.values())
        self._open.clear()
        try:
            if error is None:
                self.written += [file.finish() for file in files]
                self._disk.sync_directory(self._directory)
        finally:
            for file in files:
                file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Raises PipelineRefused for rows without a time."""
        if rows.column(TIMESTAMP).null_count:
            raise PipelineRefused(f"a row has no {TIMESTAMP}, and tables are partitioned by it: give it one")
        rows = rows.cast(in_utc(rows.schema))
        begins = pc.floor_temporal(rows.column(TIMESTAMP).cast(pa.timestamp("us")), unit="hour")
        hour_of_row = pc.divide(begins.cast(pa.int64()), hours.HOUR_US)
        found = pc.unique(hour_of_row).to_pylist()
        for hour in found:
            chosen = rows if len(found) == 1 else rows.filter(pc.equal(hour_of_row, hour))
            self._file(hour, rows.schema).add(chosen)
        if sum(file.pending_bytes for file in self._open.values()) > _PENDING_BYTES:
            for file in self._open.values():
                file.flush()

    def _file(self, hour: int, schema: pa.Schema) -> _OneFile:
        file = self._open.pop(hour, None)
        if file is None:
            if len(self._open) >= MOST_OPEN:
                oldest = self._open.pop(next(iter(self._open)))
                try:
                    self.written.append(oldest.finish())
                finally:
                    oldest.close()
            file = _OneFile(self._directory, hours.label(hour), schema, self._disk)
        # Last in order, as the newest.
        self._open[hour] = file
        return file


class _OneFile:
    def __init__(self, directory: str, hour: str, schema: pa.Schema, disk: Disk) -> None:
        self._name = f"{uuid.uuid4().hex}.parquet"
        self._hour = hour
        self._rows = 0
        self._pending: list[pa.RecordBatch] = []
        self.pending_bytes = 0
        self._file = disk.open(f"{directory}/{self._name}", create=True)
        self._sink = DiskFile(self._file, writable=True)
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_statistics=hour != hours.UNKNOWN)

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows += rows.num_rows
        self._pending.append(rows)
        self.pending_bytes += rows.nbytes
        if self.pending_bytes > _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending))
        self._pending.clear()
        self.pending_bytes = 0

    def finish(self) -> WrittenFile:
        self.flush()
        self._writer.close()
        self._file.sync()
        return WrittenFile(self._name, self._hour, self._rows, self._file.size())

    def close(self) -> None:
        """What is written of one that was not finished stays in the stage, and goes with it."""
        self._sink.give_up()
        self._writer.close()
        self._sink.close()
