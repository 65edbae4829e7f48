"""A topic is deleted and made anew while work on its log waits for a thread: that work has paths of the new one."""

from __future__ import annotations

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.log import Log
from penstock.wire.records import Record, build_batch

DIRECTORY = "/data/p"
SETTINGS = LogSettings(segment_bytes=1100, retention_ms=1000, file_delete_delay_ms=0)
COMPACTED = LogSettings(segment_bytes=1100, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


def opened(disk: PowerCutDisk, settings: LogSettings = SETTINGS) -> Log:
    return Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)


def made_anew(disk: PowerCutDisk, old: Log, settings: LogSettings = SETTINGS) -> Log:
    old.abandon()
    disk.rename(DIRECTORY, "/data/deleted")
    return opened(disk, settings)


def put_many(log: Log, *, keys: int, repeats: int) -> None:
    for number in range(40):
        records = [Record(0, NOW_MS, b"%d" % (number % keys), b"%d" % number * repeats)]
        append(log, memoryview(build_batch(records)))


def begun(log: Log) -> Compaction:
    sync(log)
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    assert compaction is not None
    return compaction


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("next_call", ["work", "settle", "abandon"])
def test_compaction_does_not_touch_it(steps: int, next_call: str) -> None:
    disk = PowerCutDisk()
    log = opened(disk, COMPACTED)
    put_many(log, keys=9, repeats=60)
    compaction = begun(log)
    for _ in range(steps):
        compaction.work()
        compaction.settle(NOW_MS)
    if next_call != "work":
        compaction.work()
    new = made_anew(disk, log, COMPACTED)
    put_many(new, keys=1, repeats=70)
    other = begun(new)
    while not other.is_done:
        other.work()
        other.settle(NOW_MS)
    new.checkpoint()
    before, files = contents(new), disk.list_directory(DIRECTORY)
    if next_call == "abandon":
        compaction.abandon()
    elif next_call == "work":
        compaction.work()
    while not compaction.is_done:
        compaction.settle(NOW_MS)
        compaction.work()
    assert disk.list_directory(DIRECTORY) == files
    assert contents(new) == contents(opened(disk, COMPACTED)) == before


def test_retention_deletes_nothing_from_it() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for number in range(5):
        append(log, batch_of(b"%d" % number * 900))
    deletion = log.apply_retention(NOW_MS + 2000)
    assert deletion is not None
    new = made_anew(disk, log)
    append(new, batch_of(b"new"))
    sync(new)
    deletion.run()
    assert list(contents(opened(disk))) == [0]


def test_its_start_does_not_move() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    append(log, batch_of(b"a", b"b"))
    append(made_anew(disk, log), batch_of(b"new"))
    with pytest.raises(PenstockError) as refusal:
        log.write_start(1)
    assert refusal.value.problem is Problem.STORAGE_FAILED
    assert opened(disk).start_offset == 0
