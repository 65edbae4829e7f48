"""Small files of one hour become one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow.parquet as pq

from penstock.disk.interface import Disk
from penstock.pipelines.core import hours
from penstock.pipelines.tables.disk_file import DiskFile
from penstock.pipelines.tables.table import WrittenFile


def merge_files(sources: Iterable[tuple[str, str]], directory: str, disk: Disk) -> list[WrittenFile]:
    """Of files with their hours, one per hour, in `directory`. Rows keep their order; memory holds a few thousand."""
    by_hour: dict[str, list[str]] = {}
    for path, hour in sources:
        by_hour.setdefault(hour, []).append(path)
    merged = [_merge(paths, hour, directory, disk) for hour, paths in sorted(by_hour.items())]
    disk.sync_directory(directory)
    return merged


def _merge(paths: Sequence[str], hour: str, directory: str, disk: Disk) -> WrittenFile:
    name = f"{uuid.uuid4().hex}.parquet"
    file = disk.open(f"{directory}/{name}", create=True)
    rows = 0
    with DiskFile(file, writable=True) as sink:
        with pq.ParquetFile(DiskFile(disk.open(paths[0]))) as first:
            schema = first.schema_arrow
        writer = pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=hour != hours.UNKNOWN)
        try:
            for path in paths:
                with pq.ParquetFile(DiskFile(disk.open(path))) as source:
                    for part in source.iter_batches():
                        writer.write_batch(part)
                        rows += part.num_rows
            writer.close()
        finally:
            sink.give_up()
            writer.close()
        file.sync()
        return WrittenFile(name, hour, rows, file.size())
