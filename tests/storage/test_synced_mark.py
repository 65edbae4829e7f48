"""The mark of the last good sync speaks of what was synced then, and of nothing that came into those files later."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents, sync
from tests.storage.damaged_log import DIRECTORY, SEGMENT, everything_but, filled, opened
from tests.storage.journaled_node import NothingKept

from penstock.config.log import LogSettings
from penstock.errors import PenstockError
from penstock.storage.compaction import Compaction
from penstock.storage.doubt import MARK_NAME
from penstock.storage.log import Log
from penstock.units import DAY_MS, HOUR_MS
from penstock.wire.records import Record, build_batch

LATER_MS = NOW_MS + HOUR_MS


def keyed(log: Log, count: int, now_ms: int = NOW_MS) -> None:
    for _ in range(count):
        record = Record(0, now_ms, b"k%d" % log.end_offset, b"v")
        append(log, memoryview(bytearray(build_batch([record]))), now_ms=now_ms)


def keep_mark(disk: PowerCutDisk) -> None:
    """The kernel writes it back some time, and may write no later one before the power fails."""
    disk.open(f"{DIRECTORY}/{MARK_NAME}").sync()
    disk.sync_directory(DIRECTORY)


def killed(_: PowerCutDisk) -> None:
    pass


def cut(disk: PowerCutDisk) -> None:
    disk.cut_power(NothingKept())


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("policy, end", [("os", killed), ("acked", killed), ("acked", cut)])
def test_what_follows_on_a_segment_whose_successor_went_as_empty(
    policy: str, end: Callable[[PowerCutDisk], None], is_closed: bool
) -> None:
    """Housekeeping had closed it, and nothing came until the node was started again."""
    settings = LogSettings(flush_policy=policy, cleanup_policy="compact", max_compaction_lag_ms=HOUR_MS)
    disk = PowerCutDisk()
    log = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
    keyed(log, 5)
    log.roll_if_due(LATER_MS)
    log.checkpoint()
    keep_mark(disk)
    if is_closed:
        log.close()
    log = Log.open(disk, DIRECTORY, settings, now_ms=LATER_MS)
    keyed(log, 4, LATER_MS)
    if policy == "acked":
        sync(log)
    end(disk)
    again = Log.open(disk, DIRECTORY, settings, now_ms=LATER_MS)
    assert (again.recovery.damage, again.recovery.torn_bytes) == ([], 0)
    assert list(contents(again)) == list(range(9))


def test_what_follows_on_a_segment_whose_successor_found_no_room() -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 5, flush_policy="os", segment_bytes=1000)
    disk.fail_next("write", errno.ENOSPC, path_part=f"{5:020d}.log")
    with pytest.raises(PenstockError):
        append(log, batch_of(b"y" * 700))
    log.close()
    log = opened(disk, flush_policy="os", segment_bytes=1000)
    assert append(log, batch_of(b"y")).base_offset == 5
    assert append(log, batch_of(b"y")).base_offset == 6
    assert list(contents(opened(disk, flush_policy="os", segment_bytes=1000))) == list(range(7))


def test_what_was_merged_into_a_segment_before_the_mark() -> None:
    """No checkpoint knows the merged one yet, and the mark is older than what was merged."""
    settings = LogSettings(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, segment_bytes=350)
    disk = PowerCutDisk()
    log = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
    keyed(log, 5)
    sync(log)
    keep_mark(disk)
    keyed(log, 8)
    sync(log)
    log.settings = replace(settings, segment_bytes=2000)
    compaction = Compaction.begin(log, bound_offset=log.durable_offset, now_ms=LATER_MS)
    assert compaction is not None
    while not compaction.is_done:
        compaction.work()
        compaction.settle(LATER_MS)
    cut(disk)
    again = Log.open(disk, DIRECTORY, settings, now_ms=LATER_MS)
    assert again.recovery.damage == []
    assert list(contents(again)) == list(range(13))


def without_its_last_segment(disk: PowerCutDisk, policy: str) -> set[int]:
    """A log of 12 that was synced and had no checkpoint; which offsets are gone."""
    log, _ = filled(disk, 12, flush_policy=policy, segment_bytes=350)
    last = log.segments[-1]
    disk.remove(last.path + ".log")
    return set(range(last.base_offset, 12))


def test_offsets_that_are_gone_are_not_given_again_after_another_sync() -> None:
    disk = PowerCutDisk()
    lost = without_its_last_segment(disk, "os")
    sync(opened(disk, flush_policy="os", segment_bytes=350))
    again = opened(disk, flush_policy="os", segment_bytes=350)
    everything_but(again, lost)
    assert append(again, batch_of(b"next")).base_offset == 12


def test_offsets_that_are_gone_are_not_given_again_after_a_start_without_a_checkpoint() -> None:
    """The disk had no room for it."""
    disk = PowerCutDisk()
    lost = without_its_last_segment(disk, "acked")
    disk.fail_next("create", errno.ENOSPC, path_part="checkpoint.tmp")
    for again in (opened(disk, segment_bytes=350) for _ in range(2)):
        everything_but(again, lost)
        assert again.end_offset == 12


def test_offsets_that_are_gone_are_not_given_again_after_a_start_that_did_not_end() -> None:
    has_ended, operations = False, 0
    while not has_ended:
        disk = CrashingDisk()
        lost = without_its_last_segment(disk, "acked")
        disk.operations_left = operations
        with suppress(PowerOff):
            opened(disk, segment_bytes=350)
            has_ended = True
        disk.operations_left = None
        again = opened(disk, segment_bytes=350)
        everything_but(again, lost)
        assert again.end_offset == 12
        operations += 1


@pytest.mark.parametrize("is_in_successor", [False, True])
def test_it_speaks_of_epochs_in_the_segments_before_its_own(is_in_successor: bool) -> None:
    """The one that it is in may be empty: then nothing else follows on the last batch of the one before."""
    disk = PowerCutDisk()
    log, positions = filled(disk, 5, flush_policy="os")
    append(log, batch_of(b"4" * 40))
    if is_in_successor:
        log.roll_if_due(NOW_MS + 14 * DAY_MS)
    positions.append(log.segments[0].size - len(batch_of(b"4" * 40)))
    sync(log)
    disk.damage(f"{SEGMENT}.log", positions[5] + 15, b"\x08")
    again = opened(disk, flush_policy="os")
    everything_but(again, {5})
    again.begin_epoch(1)
