"""A table of plain Parquet files: one directory per batch, shown by one rename.

    TABLE/_table.json                                           the schema
    TABLE/batch=QUERY.FIRST-LAST/hour=2026-11-16-04/….parquet   the rows of one batch, or of merged ones
    TABLE/batch=QUERY.FIRST-LAST/_manifest.json                 its files, and the ledger as of it
    TABLE/_staged/…                                             what is not in the table

A rename of a directory is atomic and fails if the target has something in it: that is the commit, and why only one of
two drivers gets through. So whoever reads TABLE as a directory of Parquet files (Spark, pyarrow, DuckDB) sees whole
batches only. While `compact` puts a merged directory in and takes the others out, such a reader may see rows twice;
`files` leaves out what a merged directory covers, and is exact at all times.

It needs a filesystem with POSIX renames that driver and executors share.
"""

from __future__ import annotations

import errno
import uuid

import msgspec
import pyarrow as pa

from penstock.disk.interface import Disk, read_whole, replace_atomically
from penstock.pipelines.core.ledger import Ledger, Standing, check_apart, settled, standing
from penstock.pipelines.core.names import STAGED, Attempt, Batches, checked_query
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.tables.merging import merge_files
from penstock.pipelines.tables.schemas import schema_words
from penstock.pipelines.tables.staging import Staging
from penstock.pipelines.tables.table import SMALL_BYTES, Batch, Compacted, Outcome, WrittenFile

_MANIFEST = "_manifest.json"
_SCHEMA = "_table.json"
_READY = "ready"
# One manifest lists all files of a merged directory.
_MOST_MERGED = 1000
# Each time a merge would have to begin and end in between.
_MOST_LOOKS = 10


class Manifest(msgspec.Struct, frozen=True):
    files: tuple[WrittenFile, ...]
    ledger: Ledger

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class ParquetTable:
    def __init__(self, root: str, schema: pa.Schema | None, disk: Disk) -> None:
        """Makes the table if there is none, and a schema is given; refuses one with another schema."""
        self._root = root.rstrip("/")
        self._disk = disk
        self._staging = Staging(self._root, disk)
        path = f"{self._root}/{_SCHEMA}"
        if schema is None:
            if not disk.exists(path):
                raise PipelineRefused(f"there is no Parquet table at {self._root}: archive a topic into it first")
            return
        disk.make_directory(self._root)
        words = schema_words(schema)
        if not disk.exists(path):
            replace_atomically(disk, path, msgspec.json.encode(words))
        elif (found := msgspec.json.decode(read_whole(disk, path))) != words:
            raise PipelineRefused(
                f"the table {self._root} has the columns {found}, not {words}: archive into another table"
            )

    def ledgers(self) -> dict[str, Ledger]:
        newest: dict[str, Manifest] = {}
        for batches, manifest in self._manifests(newest_only=True):
            newest[batches.query] = manifest
        return {query: manifest.ledger for query, manifest in newest.items()}

    def stage(self, attempt: Attempt) -> str:
        checked_query(attempt.query)
        return self._staging.make(attempt)

    def commit(self, batch: Batch) -> Outcome:
        attempt = batch.attempt
        others = self.ledgers()
        known = others.pop(attempt.query, None)
        if standing(known, attempt.batch_id, attempt.attempt) is not Standing.MISSING:
            self._staging.discard(attempt)
            return Outcome.ALREADY
        ledger = settled(known, attempt.batch_id, attempt.attempt, batch.ranges, batch.topic_ids)
        check_apart(others.values(), ledger.ranges, ledger.topic_ids)
        batches = Batches(attempt.query, attempt.batch_id, attempt.batch_id)
        ready = self._ready(attempt, Manifest(tuple(batch.files), ledger))
        shown = self._show(ready, batches)
        # A merge may have covered the batch since the ledger was asked, and freed its name.
        if shown and any(other.covers(batches) for other in self._directories() if other != batches):
            self._remove(batches)
            shown = False
        self._staging.discard(attempt)
        if not shown:
            return Outcome.ALREADY
        self._check_alone(batches, ledger)
        return Outcome.COMMITTED

    def _check_alone(self, batches: Batches, ledger: Ledger) -> None:
        """Another query may have shown the same offsets since its ledger was asked: both look, so one takes them back.

        If both do, neither has them, and whoever comes again first gets them.
        """
        others = self.ledgers()
        others.pop(batches.query, None)
        try:
            check_apart(others.values(), ledger.ranges, ledger.topic_ids)
        except PipelineRefused:
            self._remove(batches)
            raise

    def abandon(self, attempt: Attempt) -> None:
        self._staging.discard(attempt)

    def discard(self, query: str) -> None:
        self._staging.discard_all(query)
        shown = set(self._shown())
        for batches in self._directories():
            if batches not in shown:
                self._remove(batches)

    def files(self) -> list[str]:
        return [
            f"{self._root}/{batches.directory}/{_place(file)}"
            for batches, manifest in self._manifests()
            for file in manifest.files
        ]

    def compact(self) -> Compacted:
        """Batches of one query that follow on each other, as long as they are small, become one directory.

        By one process at a time: two could merge runs that overlap.
        """
        before = len(self.files())
        for run in self._runs():
            self._merge(run)
        return Compacted(before, len(self.files()))

    def _merge(self, run: list[tuple[Batches, Manifest]]) -> None:
        (first, _), (last, newest) = run[0], run[-1]
        attempt = Attempt(first.query, last.last, f"merge-{first.first}")
        stage = self._staging.make(attempt)
        sources = [
            (f"{self._root}/{batches.directory}/{_place(file)}", file.hour)
            for batches, manifest in run
            for file in manifest.files
        ]
        merged = Manifest(tuple(merge_files(sources, stage, self._disk)), newest.ledger)
        if merged.rows != sum(manifest.rows for _, manifest in run):
            raise PipelineRefused(f"merging {first.directory} and others would lose rows: nothing was changed")
        self._show(self._ready(attempt, merged), Batches(first.query, first.first, last.last))
        self._staging.discard(attempt)
        for batches, _ in run:
            self._remove(batches)

    def _runs(self) -> list[list[tuple[Batches, Manifest]]]:
        runs: list[list[tuple[Batches, Manifest]]] = []
        size_bytes = 0
        for batches, manifest in self._manifests():
            added = sum(file.size_bytes for file in manifest.files)
            joins = bool(runs) and runs[-1][-1][0].query == batches.query and len(runs[-1]) < _MOST_MERGED
            if joins and size_bytes + added <= SMALL_BYTES:
                runs[-1].append((batches, manifest))
                size_bytes += added
            else:
                runs.append([(batches, manifest)])
                size_bytes = added
        return [run for run in runs if len(run) > 1]

    def _ready(self, attempt: Attempt, manifest: Manifest) -> str:
        """A directory with the manifest and its files, durable, that only has to be renamed."""
        stage = self._staging.path(attempt)
        ready = f"{stage}/{_READY}"
        self._disk.make_directory(ready)
        for hour in sorted({file.hour for file in manifest.files}):
            directory = f"{ready}/hour={hour}"
            self._disk.make_directory(directory)
            for file in manifest.files:
                if file.hour == hour:
                    self._disk.rename(f"{stage}/{file.name}", f"{directory}/{file.name}")
            self._disk.sync_directory(directory)
        replace_atomically(self._disk, f"{ready}/{_MANIFEST}", msgspec.json.encode(manifest))
        return ready

    def _show(self, ready: str, batches: Batches) -> bool:
        """The commit. False if another has it already."""
        try:
            self._disk.rename(ready, f"{self._root}/{batches.directory}")
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shown = False
        else:
            shown = True
        # Also what another has shown counts from now on.
        self._disk.sync_directory(self._root)
        return shown

    def _remove(self, batches: Batches) -> None:
        """Out of readers' sight as a whole, then for good."""
        hidden = f"{self._root}/{STAGED}/{uuid.uuid4().hex}"
        self._disk.make_directory(f"{self._root}/{STAGED}", for_good=False)
        try:
            self._disk.rename(f"{self._root}/{batches.directory}", hidden)
        except FileNotFoundError:
            # Another removes it.
            return
        self._disk.sync_directory(self._root)
        self._disk.remove_directory(hidden)

    def _directories(self) -> list[Batches]:
        names = self._disk.list_directory(self._root)
        return [batches for name in names if (batches := Batches.parse(name)) is not None]

    def _shown(self) -> list[Batches]:
        """In order, without those that a merged one covers."""
        shown: list[Batches] = []
        # What covers comes before what it covers.
        for found in sorted(self._directories(), key=lambda one: (one.query, one.first, -one.last)):
            if not (shown and shown[-1].covers(found)):
                shown.append(found)
        return shown

    def _manifests(self, *, newest_only: bool = False) -> list[tuple[Batches, Manifest]]:
        """In order; or only each query's last."""
        for _ in range(_MOST_LOOKS):
            shown = self._shown()
            if newest_only:
                shown = list({batches.query: batches for batches in shown}.values())
            try:
                return [(batches, self._manifest(batches)) for batches in shown]
            except FileNotFoundError as error:
                # A merge takes directories away when the merged one is there: so look again.
                missing = error
        raise PipelineRefused(f"{missing}: restore it from a copy of the table")

    def _manifest(self, batches: Batches) -> Manifest:
        path = f"{self._root}/{batches.directory}/{_MANIFEST}"
        try:
            return msgspec.json.decode(read_whole(self._disk, path), type=Manifest)
        except msgspec.DecodeError as error:
            raise PipelineRefused(f"{path} cannot be read ({error}): restore it from a copy of the table") from None


def _place(file: WrittenFile) -> str:
    return f"hour={file.hour}/{file.name}"
