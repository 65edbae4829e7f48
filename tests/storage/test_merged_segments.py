"""Compaction merges segments, and what it has merged stays beside the merged one for a while."""

from __future__ import annotations

import dataclasses

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, contents, sync

from penstock.config.log import LogSettings
from penstock.storage.compaction import Compaction
from penstock.storage.core.log_files import SNAPSHOT_SUFFIX
from penstock.storage.log import Log
from penstock.wire.records import Record, build_batch

DIRECTORY = "/data/p"
SMALL = LogSettings(cleanup_policy="compact,delete", segment_bytes=200, min_cleanable_dirty_ratio=0.0, retention_ms=-1)


@pytest.mark.parametrize("checkpoint_is_lost", [False, True])
def test_records_deleted_up_to_the_middle_of_a_merged_segment(checkpoint_is_lost: bool) -> None:
    disk = PowerCutDisk()
    log = Log.open(disk, DIRECTORY, SMALL, now_ms=NOW_MS)
    for number in range(8):
        append(log, memoryview(build_batch([Record(0, NOW_MS, b"key-%d" % number, b"v" * 50)])))
    sync(log)
    log.settings = dataclasses.replace(SMALL, segment_bytes=10_000)
    compaction = Compaction.begin(log, bound_offset=log.durable_offset, now_ms=NOW_MS)
    assert compaction is not None
    while not compaction.is_done:
        compaction.work()
        compaction.settle(NOW_MS)
    ticket = log.begin_sync(checkpoint=True)
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    assert log.delete_records(4) == 4
    kept = contents(log)
    assert sorted(kept) == [4, 5, 6, 7, *range(8, log.end_offset)]
    log.close()
    if checkpoint_is_lost:
        disk.remove(f"{DIRECTORY}/checkpoint")
    again = Log.open(disk, DIRECTORY, SMALL, now_ms=NOW_MS)
    assert (again.start_offset, again.end_offset) == (log.start_offset, log.end_offset)
    assert contents(again) == kept


def test_no_file_is_left_for_producers_that_nobody_knew() -> None:
    """Of the first segment there is none, so what takes its place has none either."""
    disk = PowerCutDisk()
    log = Log.open(disk, DIRECTORY, SMALL, now_ms=NOW_MS)
    for _ in range(8):
        append(log, memoryview(build_batch([Record(0, NOW_MS, b"key", b"v" * 50)])))
    sync(log)
    compaction = Compaction.begin(log, bound_offset=log.durable_offset, now_ms=NOW_MS)
    assert compaction is not None
    while not compaction.is_done:
        compaction.work()
        compaction.settle(NOW_MS)
    assert log.segments[0].generation
    snapshots = [name for name in disk.list_directory(DIRECTORY) if name.endswith(SNAPSHOT_SUFFIX)]
    assert snapshots and all(disk.open(f"{DIRECTORY}/{name}").size() for name in snapshots)


def test_what_is_missing_below_the_start_is_no_damage() -> None:
    """Of two neighbours there only the compacted one is left."""
    settings = dataclasses.replace(SMALL, cleanup_policy="compact", segment_bytes=350)
    disk = PowerCutDisk()
    log = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)

    def fill(count: int) -> None:
        for number in range(count):
            append(log, memoryview(build_batch([Record(0, NOW_MS, b"k%d" % (number % 2), b"v%d" % number)])))
        sync(log)

    fill(6)
    compaction = Compaction.begin(log, bound_offset=log.durable_offset, now_ms=NOW_MS)
    assert compaction is not None
    while not compaction.is_done:
        compaction.work()
        compaction.settle(NOW_MS)
    log.checkpoint()
    fill(14)
    kept = contents(log, 18)
    log.delete_records(18)
    again = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
    assert again.recovery.damage == []
    assert contents(again) == kept


@pytest.mark.parametrize("policy", ["os", "acked"])
def test_what_was_not_synced_is_not_compacted(policy: str) -> None:
    """No sync would cover the old segments any more, and a power cut could bring them back half-empty.

    Of a replica that others are ahead of, it may be committed.
    """
    settings = dataclasses.replace(SMALL, flush_policy=policy)
    log = Log.open(PowerCutDisk(), DIRECTORY, settings, now_ms=NOW_MS)
    for number in range(8):
        append(log, memoryview(build_batch([Record(0, NOW_MS, b"key", b"v%d" % number)])))
    assert Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS) is None
    sync(log)
    assert Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS) is not None
