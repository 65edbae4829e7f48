"""How tasks write files into a stage: a Spark data source that can only be written to, in Arrow batches.

Spark calls `commit` when all tasks are done, in a process beside the driver and with what each task's successful
attempt has returned. It only notes that down: the driver commits to the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.disk.local import LocalDisk
from penstock.pipelines.hour_files import HourFiles
from penstock.pipelines.tables.table import WrittenFile

NAME = "penstock-stage"
# Columns of rows that may be unreadable: why (null if it is not), and what was read.
REASON = "unreadable"
READ = "readable"


class StagedFiles(msgspec.Struct):
    files: list[WrittenFile]
    unreadable: list[WrittenFile]


@dataclass
class TaskFiles(WriterCommitMessage):
    files: list[WrittenFile]
    unreadable: list[WrittenFile]


class StageWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._stage = options["stage"]
        # Where the others go, if rows say whether they could be read.
        self._unreadable = options.get("unreadable")
        self._note = options["note"]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        disk = LocalDisk()
        with ExitStack() as stack:
            files = stack.enter_context(HourFiles(self._stage, disk))
            others = stack.enter_context(HourFiles(self._unreadable, disk)) if self._unreadable else None
            for rows in iterator:
                if others is None:
                    files.add(rows)
                else:
                    is_readable = pc.is_null(rows.column(REASON))
                    files.add(_readable(rows.filter(is_readable)))
                    others.add(_unreadable(rows.filter(pc.invert(is_readable))))
        return TaskFiles(files.written, others.written if others is not None else [])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        done = [message for message in messages if isinstance(message, TaskFiles)]
        staged = StagedFiles(
            [file for message in done for file in message.files],
            [file for message in done for file in message.unreadable],
        )
        with open(self._note, "wb") as note:
            note.write(msgspec.json.encode(staged))


class StageDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> StageWriter:
        return StageWriter(self.options)


def write_staged(rows: DataFrame, stage: str, unreadable: str | None, note: str) -> StagedFiles:
    """Writes all rows; `note` is a path on the driver's host that nobody else uses."""
    writer = rows.write.format(NAME).mode("append").option("stage", stage).option("note", note)
    if unreadable is not None:
        writer = writer.option("unreadable", unreadable)
    writer.save()
    with open(note, "rb") as written:
        return msgspec.json.decode(written.read(), type=StagedFiles)


def _readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """With what was read in the place of the value."""
    place = rows.schema.get_field_index("value")
    read = rows.column(READ)
    field = pa.field("value", read.type)
    return rows.set_column(place, field, read).drop_columns([READ, REASON])


def _unreadable(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns([READ])
