"""What a power cut left out of what was never synced: known until it is gone, whatever else happens to the log."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError
from penstock.storage.holes import first_fresh_hole, first_hole, keep_holes
from penstock.storage.log import Log


def opened(disk: PowerCutDisk, segment_bytes: int = 2**20) -> Log:
    return Log.open(disk, "/log", LogSettings(segment_bytes=segment_bytes), now_ms=NOW_MS)


def with_holes(disk: PowerCutDisk, *places: int, start: int = 0) -> None:
    """Twenty records, nothing of them synced, and these are missing."""
    log = opened(disk)
    positions = []
    for _ in range(20):
        positions.append(log.size_bytes)
        append(log, batch_of(b"x" * 40))
    log.delete_records(start)
    for place in places:
        disk.damage(f"/log/{0:020d}.log", positions[place] + 30, bytes(20))


def test_a_hole_below_the_start_does_not_hide_one_above_it() -> None:
    disk = PowerCutDisk()
    with_holes(disk, 3, 14, start=10)
    log = opened(disk)
    assert first_hole(log) == 14
    log.delete_records(15)
    assert first_hole(log) is None


def test_a_log_that_starts_within_a_hole_is_cut_at_its_start() -> None:
    disk = PowerCutDisk()
    with_holes(disk, 2, 3, start=3)
    log = opened(disk)
    assert first_hole(log) == 3
    log.truncate_to(3)
    for each in (log, opened(disk)):
        assert (each.start_offset, each.end_offset, first_hole(each)) == (3, 3, None)


def test_a_hole_is_known_at_every_start_until_it_is_cut_off() -> None:
    disk = PowerCutDisk()
    with_holes(disk, 14, 17)
    for seed in range(3):
        log = opened(disk)
        assert first_hole(log) == 14
        log.checkpoint()
        disk.cut_power(Random(seed))
    again = opened(disk)
    again.truncate_to(16)
    assert first_hole(again) == 14
    again.truncate_to(14)
    append(again, batch_of(b"what was missing"))
    again.checkpoint()
    for each in (again, opened(disk)):
        assert (each.end_offset, first_hole(each)) == (15, None)


def test_damage_of_what_a_checkpoint_vouches_for_is_no_hole() -> None:
    disk = PowerCutDisk()
    with_holes(disk)
    opened(disk).checkpoint()
    disk.damage(f"/log/{0:020d}.log", 30, bytes(20))
    log = opened(disk)
    with pytest.raises(PenstockError):
        bytes_at(log, 0)
    log.checkpoint()
    for each in (log, opened(disk)):
        assert first_hole(each) is None


def test_a_hole_with_which_a_replica_has_led_is_not_fresh_any_more() -> None:
    disk = PowerCutDisk()
    with_holes(disk, 14)
    log = opened(disk)
    assert first_fresh_hole(log) == 14
    keep_holes(log)
    disk.cut_power(Random(1))
    again = opened(disk)
    assert (again.end_offset, first_hole(again), first_fresh_hole(again)) == (20, 14, None)
    again.truncate_to(14)
    assert (first_hole(again), again.holes.kept_offset) == (None, 14)


def test_damage_of_what_was_synced_is_no_fresh_hole_even_before_a_checkpoint_says_so() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    positions = []
    for number in range(20):
        positions.append(log.size_bytes)
        append(log, batch_of(b"x" * 40))
        if number == 9:
            sync(log)
    for place in (4, 14):
        disk.damage(f"/log/{0:020d}.log", positions[place] + 30, bytes(20))
    for again in (opened(disk), opened(disk)):
        assert (first_hole(again), first_fresh_hole(again)) == (4, 14)


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("kept_batches", [None, 0, 1])
def test_what_a_synced_segment_has_lost_is_no_fresh_hole_either(lost: int, kept_batches: int | None) -> None:
    """A file that is gone, or ends earlier but where a batch ends: what is behind it was committed, and stays."""
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=350)
    positions = []
    for _ in range(12):
        positions.append(log.size_bytes)
        append(log, batch_of(b"x" * 40))
    sync(log)
    segment, following = log.segments[lost : lost + 2]
    path = f"/log/{segment.base_offset:020d}.log"
    if kept_batches is None:
        disk.remove(path)
    else:
        disk.replace(path, disk.open(path).read(0, positions[kept_batches]))
    first_offset = segment.base_offset + (kept_batches or 0)
    for again in (opened(disk, segment_bytes=350), opened(disk, segment_bytes=350)):
        assert again.end_offset == 12
        assert first_fresh_hole(again) is None
        with pytest.raises(PenstockError):
            bytes_at(again, first_offset)
        assert bytes_at(again, following.base_offset)


def synced_without_a_segment(disk: PowerCutDisk, lost: int, *, before_loss: Callable[[Log], None]) -> int:
    """Twelve synced records, three to a segment, no checkpoint; and what becomes of one. Returns its first offset."""
    log = opened(disk, segment_bytes=350)
    for _ in range(12):
        append(log, batch_of(b"x" * 40))
    sync(log)
    segment = log.segments[lost]
    before_loss(log)
    disk.remove(segment.path + ".log")
    return segment.base_offset


def fill_another_segment(log: Log) -> None:
    append(log, batch_of(b"y" * 200))
    append(log, batch_of(b"y" * 200))


def fail_to_sync(log: Log) -> None:
    append(log, batch_of(b"y"))
    ticket = log.begin_sync()
    assert ticket is not None
    log.disk.fail_next("sync", errno.EIO, path_part=".log")  # type: ignore[attr-defined]
    with pytest.raises(OSError):
        ticket.run()
    log.fail("sync failed")


@pytest.mark.parametrize("lost", [1, -1])
@pytest.mark.parametrize("before_loss", [fill_another_segment, fail_to_sync])
def test_what_was_synced_is_known_whatever_came_after_it(lost: int, before_loss: Callable[[Log], None]) -> None:
    disk = PowerCutDisk()
    first_offset = synced_without_a_segment(disk, lost, before_loss=before_loss)
    for again in (opened(disk, segment_bytes=350), opened(disk, segment_bytes=350)):
        assert (first_hole(again), first_fresh_hole(again)) == (first_offset, None)


def test_what_was_synced_is_known_after_a_start_that_did_not_end() -> None:
    """It was killed before its checkpoint could say so."""
    for operations in itertools.count():
        disk = CrashingDisk()
        first_offset = synced_without_a_segment(disk, 1, before_loss=lambda _: None)
        disk.operations_left = operations
        with suppress(PowerOff):
            opened(disk, segment_bytes=350)
        has_ended = bool(disk.operations_left)
        disk.operations_left = None
        again = opened(disk, segment_bytes=350)
        assert (first_hole(again), first_fresh_hole(again)) == (first_offset, None)
        if has_ended:
            return


def test_what_was_synced_is_known_after_a_start_that_could_not_sync() -> None:
    disk = PowerCutDisk()
    synced_without_a_segment(disk, 1, before_loss=lambda _: None)
    disk.fail_next("sync", errno.EIO)
    with pytest.raises(PenstockError):
        opened(disk, segment_bytes=350)
    assert first_fresh_hole(opened(disk, segment_bytes=350)) is None
