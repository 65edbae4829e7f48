"""A Delta table, through delta-rs: readable by everything that reads Delta.

The atomic step is Delta's own commit. It carries the query's last batch as an application transaction, and beside it a
number that names the ledger, which lies in `_penstock/QUERY.BATCH.NUMBER`: the log of Delta keeps transactions for
good, what else a commit can say goes with the history.

delta-rs refuses a transaction that another has committed since the table was loaded, and nothing more: the same one
again on a table that was loaded later is appended again. So the version is asked and the commit made on one and the
same handle. All queries commit one more transaction, the same for all of them: so each sees the others' ledgers, and no
two put the same offsets into the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from penstock.clock import Clock
from penstock.disk.interface import Disk, read_whole, replace_atomically
from penstock.pipelines.core.ledger import Ledger, Standing, check_apart, settled, standing
from penstock.pipelines.core.names import Attempt, checked_query
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.tables.merging import merge_files
from penstock.pipelines.tables.staging import Staging
from penstock.pipelines.tables.table import SMALL_BYTES, Batch, Compacted, Outcome, WrittenFile

_HOUR = "hour"
_LEDGERS = "_penstock"
# No query has such a name.
_ALL_QUERIES = "penstock/queries"
# Another query's commits, or a compaction, may get in between; each time the ledger is asked anew.
_MOST_TRIES = 20


class _LiveFile(NamedTuple):
    path: str
    size_bytes: int
    hour: str


_LIVE_COLUMNS = ["path", "size_bytes", f"partition.{_HOUR}"]


class DeltaLakeTable:
    def __init__(self, root: str, schema: pa.Schema | None, disk: Disk, clock: Clock) -> None:
        """Makes the table if there is none, and a schema is given; refuses one with other columns."""
        self._root = root.rstrip("/")
        self._disk = disk
        self._clock = clock
        self._staging = Staging(self._root, disk)
        wanted = None if schema is None else Schema.from_arrow(schema.append(pa.field(_HOUR, pa.string())))
        table = self._made(wanted)
        if wanted not in (None, table.schema()) or table.metadata().partition_columns != [_HOUR]:
            raise PipelineRefused(
                f"the table {self._root} has the columns {table.schema().to_json()} by "
                f"{table.metadata().partition_columns}, not those that come, by hour: archive into another table"
            )
        self._schema = table.schema()
        disk.make_directory(f"{self._root}/{_LEDGERS}")

    def _made(self, wanted: Schema | None) -> DeltaTable:
        try:
            return DeltaTable(self._root)
        except TableNotFoundError:
            if wanted is None:
                raise PipelineRefused(
                    f"there is no Delta table at {self._root}: archive a topic into it first"
                ) from None
        DeltaTable.create(self._root, schema=wanted, partition_by=[_HOUR], mode="ignore")
        return DeltaTable(self._root)

    def ledgers(self) -> Mapping[str, Ledger]:
        return self._loaded()[1]

    def stage(self, attempt: Attempt) -> str:
        checked_query(attempt.query)
        return self._staging.make(attempt)

    def commit(self, batch: Batch) -> Outcome:
        attempt = batch.attempt
        files: list[AddAction | RemoveAction] | None = None
        for _ in range(_MOST_TRIES):
            table, ledgers = self._loaded(attempt.query)
            known = ledgers.pop(attempt.query, None)
            found = standing(known, attempt.batch_id, attempt.attempt)
            if found is not Standing.MISSING:
                return self._ended(attempt, found, files)
            ledger = settled(known, attempt.batch_id, attempt.attempt, batch.ranges, batch.topic_ids)
            check_apart(ledgers.values(), ledger.ranges, ledger.topic_ids)
            if files is None:
                files = [self._adopt(attempt, file) for file in batch.files]
            number = self._keep(attempt, ledger)
            try:
                table.create_write_transaction(
                    files,
                    "append",
                    self._schema,
                    partition_by=[_HOUR],
                    commit_properties=CommitProperties(
                        app_transactions=[
                            Transaction(attempt.query, attempt.batch_id, None),
                            Transaction(_pointer(attempt.query), number, None),
                            Transaction(_ALL_QUERIES, number, None),
                        ]
                    ),
                )
            except CommitFailedError:
                continue
            self._tidy_ledgers(attempt, number)
            self._staging.discard(attempt)
            return Outcome.COMMITTED
        raise PipelineRefused(
            f"batch {attempt.batch_id} could not be committed to {self._root} in {_MOST_TRIES} tries, because others "
            "commit all the time: stop some of them, and start again"
        )

    def abandon(self, attempt: Attempt) -> None:
        self._staging.discard(attempt)

    def discard(self, query: str) -> None:
        self._staging.discard_all(query)

    def files(self) -> list[str]:
        return DeltaTable(self._root).file_uris()

    def compact(self) -> Compacted:
        """Small files of an hour become one, hour by hour; those that nothing refers to any more go when Delta's

        retention (a week) is over. Not by delta-rs's `optimize`: of two at the same time both replace the same files,
        and all of their rows are there twice.
        """
        before = len(self.files())
        small: dict[str, list[_LiveFile]] = {}
        for file in _live_files(DeltaTable(self._root)):
            if file.size_bytes < SMALL_BYTES:
                small.setdefault(file.hour, []).append(file)
        for hour, files in small.items():
            if len(files) > 1:
                self._merge(hour, files)
        DeltaTable(self._root).vacuum(dry_run=False)
        return Compacted(before, len(self.files()))

    def _merge(self, hour: str, files: list[_LiveFile]) -> None:
        directory = f"{_HOUR}={hour}"
        sources = [(f"{self._root}/{file.path}", hour) for file in files]
        (merged,) = merge_files(sources, f"{self._root}/{directory}", self._disk)
        now_ms = self._clock.now_ms()
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(file.path, False, now_ms, file.size_bytes, {_HOUR: hour}) for file in files
        ]
        actions.append(_added(f"{directory}/{merged.name}", merged, now_ms, is_new=False))
        for _ in range(_MOST_TRIES):
            table = DeltaTable(self._root)
            if not set(_live_files(table)).issuperset(files):
                # Somebody else has merged them.
                break
            try:
                # Tried again by itself it would go in whatever others have removed meanwhile.
                strictly = CommitProperties(max_commit_retries=0)
                table.create_write_transaction(
                    actions, "append", self._schema, partition_by=[_HOUR], commit_properties=strictly
                )
            except CommitFailedError:
                continue
            return
        self._disk.remove(f"{self._root}/{directory}/{merged.name}")

    def _adopt(self, attempt: Attempt, file: WrittenFile) -> AddAction:
        """Out of the stage, to its place. Nothing refers to it yet."""
        directory = f"{_HOUR}={file.hour}"
        name = f"{directory}/{attempt.query}-{attempt.batch_id}-{file.name}"
        self._disk.make_directory(f"{self._root}/{directory}")
        self._disk.rename(f"{self._staging.path(attempt)}/{file.name}", f"{self._root}/{name}")
        self._disk.sync_directory(f"{self._root}/{directory}")
        return _added(name, file, self._clock.now_ms(), is_new=True)

    def _ended(self, attempt: Attempt, found: Standing, files: list[AddAction | RemoveAction] | None) -> Outcome:
        if found is Standing.TAKEN:
            for file in files or ():
                self._disk.remove(f"{self._root}/{file.path}")
        self._staging.discard(attempt)
        return Outcome.COMMITTED if found is Standing.OURS else Outcome.ALREADY

    def _loaded(self, *queries: str) -> tuple[DeltaTable, dict[str, Ledger]]:
        """The table, and all ledgers as of it: of these queries, and of all that have left any."""
        for _ in range(_MOST_TRIES):
            table = DeltaTable(self._root)
            # In this order: whoever is in the table had left its ledger before.
            left = {found.query for name in self._names() if (found := Attempt.parse(name)) is not None}
            try:
                found_ledgers = {query: self._ledger(table, query) for query in sorted(left.union(queries))}
                return table, {query: ledger for query, ledger in found_ledgers.items() if ledger is not None}
            except FileNotFoundError as error:
                # Another has committed since, and removed what nothing points to any more.
                missing = error
        raise PipelineRefused(f"{missing}: restore it from a copy of the table")

    def _ledger(self, table: DeltaTable, query: str) -> Ledger | None:
        batch_id, number = table.transaction_version(query), table.transaction_version(_pointer(query))
        if batch_id is None or number is None:
            return None
        path = f"{self._root}/{_LEDGERS}/{Attempt(query, batch_id, str(number)).name}"
        return Ledger.decode(read_whole(self._disk, path), path)

    def _keep(self, attempt: Attempt, ledger: Ledger) -> int:
        number = uuid.uuid4().int >> 65
        path = f"{self._root}/{_LEDGERS}/{Attempt(attempt.query, attempt.batch_id, str(number)).name}"
        replace_atomically(self._disk, path, ledger.encode())
        return number

    def _tidy_ledgers(self, attempt: Attempt, number: int) -> None:
        """Those that no commit can point to any more; a driver that is ahead of this one keeps its own."""
        for name in self._names():
            found = Attempt.parse(name)
            if found is None or found.query != attempt.query or found.batch_id > attempt.batch_id:
                continue
            if found.attempt != str(number):
                # Another driver tidies too: the batch is committed, whoever removes what.
                with suppress(FileNotFoundError):
                    self._disk.remove(f"{self._root}/{_LEDGERS}/{name}")

    def _names(self) -> list[str]:
        return self._disk.list_directory(f"{self._root}/{_LEDGERS}")


def _live_files(table: DeltaTable) -> list[_LiveFile]:
    rows = pa.table(table.get_add_actions(flatten=True)).select(_LIVE_COLUMNS).to_pylist()
    return [_LiveFile(*(row[name] for name in _LIVE_COLUMNS)) for row in rows]


def _added(path: str, file: WrittenFile, now_ms: int, *, is_new: bool) -> AddAction:
    """`is_new`: its rows are."""
    return AddAction(path, file.size_bytes, {_HOUR: file.hour}, now_ms, is_new, f'{{"numRecords":{file.rows}}}')


def _pointer(query: str) -> str:
    return f"{query}/ledger"
