"""An Iceberg table, through pyiceberg and any catalog that it knows.

The atomic step is the catalog's swap of the table's metadata: files, and the ledger as a table property. Not as a
snapshot property, because those go when snapshots expire.

pyiceberg tries a commit that came too late again, on its own, with the same files. So the table says
`commit.retry.num-retries=0`; on a conflict the table is loaded anew and its ledger asked. A batch without files
commits an empty snapshot, because a change of properties alone checks for nobody else's.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import parquet_files_to_data_files, pyarrow_to_schema
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Loaded
from pyiceberg.transforms import HourTransform

from penstock.disk.interface import Disk
from penstock.pipelines.core import hours
from penstock.pipelines.core.ledger import Ledger, Standing, check_apart, settled, standing
from penstock.pipelines.core.names import Attempt, checked_query
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.hour_files import TIMESTAMP
from penstock.pipelines.tables.merging import merge_files
from penstock.pipelines.tables.schemas import schema_words
from penstock.pipelines.tables.staging import Staging
from penstock.pipelines.tables.table import SMALL_BYTES, Batch, Compacted, Outcome, WrittenFile

_LEDGER = "penstock.ledger."
_OURS = "penstock-"
# A query of this name would be taken for merges.
_COMPACT = "compact"
_FILE = re.compile(rf"{_OURS}([A-Za-z0-9_-]+)-(\d+)-[0-9a-f]{{32}}\.parquet")
_PROPERTIES = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
}
_MOST_TRIES = 20


class IcebergTable:
    def __init__(self, catalog: Catalog, name: str, schema: pa.Schema | None, disk: Disk) -> None:
        """Makes the table if there is none, and a schema is given; refuses one that does not fit."""
        self._catalog = catalog
        self._name = name
        self._disk = disk
        if schema is not None:
            self._make(schema)
        elif not catalog.table_exists(name):
            raise PipelineRefused(f"there is no Iceberg table {name}: archive a topic into it first")
        table = self._load()
        if schema is not None and not _is_of(table.schema(), schema):
            raise PipelineRefused(
                f"the table {name} has the columns {schema_words(table.schema().as_arrow())}, not "
                f"{schema_words(schema)}: archive into another table"
            )
        location = urlparse(table.location())
        if location.scheme not in ("", "file"):
            raise PipelineRefused(
                f"the table {name} is at {table.location()}: it must be on a filesystem that all executors share"
            )
        self._root = location.path.rstrip("/")
        self._staging = Staging(self._root, disk)

    def _make(self, schema: pa.Schema) -> None:
        if not self._catalog.table_exists(self._name):
            self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            try:
                with (
                    self._catalog.create_table_transaction(
                        self._name, schema=schema, properties=_PROPERTIES
                    ) as creating,
                    creating.update_spec() as spec,
                ):
                    spec.add_field(TIMESTAMP, HourTransform(), "hour")
            except TableAlreadyExistsError:
                # Another driver was quicker.
                pass
        table = self._load()
        wrong = {name: value for name, value in _PROPERTIES.items() if table.properties.get(name) != value}
        if wrong:
            with table.transaction() as change:
                change.set_properties(wrong)

    def ledgers(self) -> Mapping[str, Ledger]:
        return self._ledgers(self._load())

    def stage(self, attempt: Attempt) -> str:
        if checked_query(attempt.query) == _COMPACT:
            raise PipelineRefused(f"{_COMPACT} cannot name a query: choose another name")
        return self._staging.make(attempt)

    def commit(self, batch: Batch) -> Outcome:
        attempt = batch.attempt
        paths: list[str] | None = None
        for _ in range(_MOST_TRIES):
            table = self._load()
            ledgers = self._ledgers(table)
            known = ledgers.pop(attempt.query, None)
            found = standing(known, attempt.batch_id, attempt.attempt)
            if found is not Standing.MISSING:
                return self._ended(attempt, found, paths)
            ledger = settled(known, attempt.batch_id, attempt.attempt, batch.ranges, batch.topic_ids)
            check_apart(ledgers.values(), ledger.ranges, ledger.topic_ids)
            if paths is None:
                paths = [self._adopt(attempt, file) for file in batch.files]
            try:
                with table.transaction() as change:
                    change.set_properties({_LEDGER + attempt.query: ledger.encode().decode()})
                    if paths:
                        # No path of an attempt can be in the table before: its name is new.
                        change.add_files(paths, check_duplicate_files=False)
                    else:
                        with change.update_snapshot().fast_append():
                            pass
            except (CommitFailedException, CommitStateUnknownException):
                continue
            self._staging.discard(attempt)
            return Outcome.COMMITTED
        raise PipelineRefused(
            f"batch {attempt.batch_id} could not be committed to {self._name} in {_MOST_TRIES} tries, because others "
            "commit all the time: stop some of them, and start again"
        )

    def abandon(self, attempt: Attempt) -> None:
        self._staging.discard(attempt)

    def discard(self, query: str) -> None:
        self._staging.discard_all(query)

    def files(self) -> list[str]:
        return [task.file.file_path for task in self._load().scan().plan_files()]

    def compact(self) -> Compacted:
        """Small files of an hour become one, hour by hour; an hour that somebody else changes meanwhile is left alone.

        Only files that this class wrote: others may have deletes, or columns of an earlier schema. Those that no
        snapshot refers to, and none ever will, are removed.
        """
        before = len(self.files())
        small: dict[str, list[DataFile]] = {}
        for task in self._load().scan().plan_files():
            file = task.file
            if not task.delete_files and _OURS in file.file_path and file.file_size_in_bytes < SMALL_BYTES:
                small.setdefault(str(file.partition), []).append(file)
        for files in small.values():
            if len(files) > 1:
                self._merge(files)
        self._remove_unused()
        return Compacted(before, len(self.files()))

    def _merge(self, files: list[DataFile]) -> None:
        table = self._load()
        # Only on top of this snapshot it can be committed; if that is gone, it is known to be unused.
        attempt = Attempt(_COMPACT, _snapshot_id(table), uuid.uuid4().hex)
        stage = self._staging.make(attempt)
        hour = hours.UNKNOWN if files[0].partition[0] is None else ""
        (merged,) = merge_files([(urlparse(file.file_path).path, hour) for file in files], stage, self._disk)
        path = self._adopt(attempt, merged)
        try:
            with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
                for file in files:
                    overwrite.delete_data_file(file)
                for added in parquet_files_to_data_files(table.io, table.metadata, iter([path])):
                    overwrite.append_data_file(added)
        except (CommitFailedException, ValidationException, FileNotFoundError):
            self._remove(urlparse(path).path)
        self._staging.discard(attempt)

    def _remove_unused(self) -> None:
        directory = f"{self._root}/data"
        # In this order: what is committed after the look at the table was not there, or was not dead, before it.
        names = self._disk.list_directory(directory) if self._disk.exists(directory) else []
        table = self._load()
        ledgers = self._ledgers(table)
        used = {urlparse(path).path for path in table.inspect.all_files().column("file_path").to_pylist()}
        for name in names:
            match = _FILE.fullmatch(name)
            if match is None or f"{directory}/{name}" in used:
                continue
            query, number = match[1], int(match[2])
            ledger = ledgers.get(query)
            passed = number != _snapshot_id(table) if query == _COMPACT else ledger and number <= ledger.batch_id
            if passed:
                self._remove(f"{directory}/{name}")

    def _remove(self, path: str) -> None:
        """What nobody uses: another that merges may have found that too."""
        with suppress(FileNotFoundError):
            self._disk.remove(path)

    def _adopt(self, attempt: Attempt, file: WrittenFile) -> str:
        """Out of the stage, to its place. Nothing refers to it yet."""
        directory = f"{self._root}/data"
        place = f"{directory}/{_OURS}{attempt.query}-{attempt.batch_id}-{file.name}"
        self._disk.make_directory(directory)
        self._disk.rename(f"{self._staging.path(attempt)}/{file.name}", place)
        self._disk.sync_directory(directory)
        return f"file://{place}"

    def _ended(self, attempt: Attempt, found: Standing, paths: list[str] | None) -> Outcome:
        if found is Standing.TAKEN:
            for path in paths or ():
                self._remove(urlparse(path).path)
        self._staging.discard(attempt)
        return Outcome.COMMITTED if found is Standing.OURS else Outcome.ALREADY

    def _ledgers(self, table: Loaded) -> dict[str, Ledger]:
        return {
            name.removeprefix(_LEDGER): Ledger.decode(text, f"{self._name}, property {name}")
            for name, text in table.properties.items()
            if name.startswith(_LEDGER)
        }

    def _load(self) -> Loaded:
        return self._catalog.load_table(self._name)


def _is_of(found: Schema, wanted: pa.Schema) -> bool:
    """Down to the fields of structs: what a file lacks pyiceberg takes for null, and other files cannot be merged.

    Compared in Iceberg's types, of which there are fewer than Arrow has.
    """
    try:
        same = pyarrow_to_schema(wanted, name_mapping=found.name_mapping)
    except ValueError:
        # It has more.
        return False
    return {field.name: field.field_type for field in same.fields} == {
        field.name: field.field_type for field in found.fields
    }


def _snapshot_id(table: Loaded) -> int:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot is not None else 0
