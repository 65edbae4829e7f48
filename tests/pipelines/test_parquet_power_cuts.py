"""A Parquet table whose machine loses power at any step, with any part of what was not synced gone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import scale
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.power import PowerCutFile
from tests.pipelines.table_driver import commit, offsets_in, parquet

from penstock.pipelines.core.ledger import Range
from penstock.pipelines.core.refusal import PipelineRefused


class DirectoryDisk(CrashingDisk):
    """A directory is not renamed onto one that has something in it."""

    def rename(self, source: str, target: str) -> None:
        if self.exists(target) and _is_directory(self, target) and self.list_directory(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        super().rename(source, target)


def _is_directory(disk: CrashingDisk, path: str) -> bool:
    try:
        disk.list_directory(path)
    except NotADirectoryError:
        return False
    return True


class MergedMeanwhile(DirectoryDisk):
    """Something happens right before such a file is first opened, or renamed to."""

    def __init__(self) -> None:
        super().__init__()
        self.before_path = ""
        self.meanwhile: Callable[[], object] | None = None

    def rename(self, source: str, target: str) -> None:
        self._act(target)
        super().rename(source, target)

    def open(self, path: str, *, create: bool = False) -> PowerCutFile:
        self._act(path)
        return super().open(path, create=create)

    def _act(self, path: str) -> None:
        if self.meanwhile is not None and path.endswith(self.before_path):
            act, self.meanwhile = self.meanwhile, None
            act()


@settings(max_examples=scale.examples(30))
@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 700), min_size=1, max_size=4))
def test_whole_batches_once(choose: Random, crashes: list[int]) -> None:
    """Four batches and two compactions, with power cuts in between; what was committed stays."""
    disk = DirectoryDisk()
    disk.make_directory("/lake")
    todo: list[int | None] = [0, 1, 2, None, 3, None]
    committed = -1
    while todo:
        disk.operations_left = crashes.pop() if crashes else None
        try:
            table = parquet("/lake", disk)
            table.discard("q")
            while todo:
                if todo[0] is None:
                    table.compact()
                else:
                    commit(table, disk, todo[0], 5 * todo[0], 5 * todo[0] + 5)
                    committed = todo[0]
                todo.pop(0)
        except PowerOff:
            disk.operations_left = None
            disk.cut_power(choose)
            seen = parquet("/lake", disk)
            found = seen.ledgers().get("q")
            batches = found.batch_id + 1 if found is not None else 0
            # Nothing that was acknowledged is gone, nothing is there in part.
            assert batches in (committed + 1, committed + 2)
            assert offsets_in(seen, disk) == list(range(5 * batches))
    disk.operations_left = None
    table = parquet("/lake", disk)
    assert offsets_in(table, disk) == list(range(20))
    assert table.ledgers()["q"].ranges == (Range("orders", 0, 0, 20),)


def test_a_late_driver_after_a_merge() -> None:
    """Its batch was committed by another, and merged, between its look at the ledger and its rename."""
    disk = MergedMeanwhile()
    disk.make_directory("/lake")
    table = parquet("/lake", disk)
    commit(table, disk, 0, 0, 5)
    disk.before_path = "batch=q.0000000000000000001-0000000000000000001"
    disk.meanwhile = lambda: (commit(table, disk, 1, 5, 10), table.compact())
    commit(table, disk, 1, 5, 10)
    assert disk.meanwhile is None
    assert offsets_in(table, disk) == list(range(10))
    assert [name for name in disk.list_directory("/lake/table") if name.startswith("batch=")] == [
        "batch=q.0000000000000000000-0000000000000000001"
    ]


def test_a_reader_during_a_merge() -> None:
    """What it has listed is gone when it looks into it."""
    disk = MergedMeanwhile()
    disk.make_directory("/lake")
    table = parquet("/lake", disk)
    commit(table, disk, 0, 0, 5)
    commit(table, disk, 1, 5, 10)
    disk.before_path = "0000000000000000001/_manifest.json"
    disk.meanwhile = table.compact
    assert table.ledgers()["q"].batch_id == 1
    assert disk.meanwhile is None


def test_a_manifest_that_is_missing() -> None:
    disk = DirectoryDisk()
    disk.make_directory("/lake")
    table = parquet("/lake", disk)
    commit(table, disk, 0, 0, 5)
    path = "/lake/table/batch=q.0000000000000000000-0000000000000000000/_manifest.json"
    disk.replace(path, b"{")
    with pytest.raises(PipelineRefused, match="cannot be read"):
        table.ledgers()
    disk.remove(path)
    with pytest.raises(PipelineRefused, match="restore it"):
        table.files()
