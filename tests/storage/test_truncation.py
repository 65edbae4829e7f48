"""Taking back the end of a log."""

from __future__ import annotations

import errno
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents, sync

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk
from penstock.errors import PenstockError, Problem
from penstock.storage.holes import first_hole
from penstock.storage.log import Log

DIRECTORY = "/data/p"


def opened(disk: Disk) -> Log:
    return Log.open(disk, DIRECTORY, LogSettings(segment_bytes=1024, index_interval_bytes=300), now_ms=NOW_MS)


def filled(disk: Disk) -> Log:
    """Thirty batches of two records, by two producers in turn, in three epochs."""
    log = opened(disk)
    for number in range(30):
        batch = batch_of(
            b"%d" % number * 20,
            b"x",
            timestamp_ms=NOW_MS + number,
            producer_id=number % 2,
            producer_epoch=0,
            base_sequence=number // 2 * 2,
        )
        append(log, batch, leader_epoch=number // 10)
    return log


@settings(max_examples=30)
@given(st.integers(0, 59), st.booleans())
def test_a_truncated_log_is_as_if_the_end_had_never_been(offset: int, synced: bool) -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    before = contents(log)
    if synced:
        sync(log)
    log.truncate_to(offset)
    end = offset - offset % 2
    assert log.end_offset == log.synced_offset == end
    assert contents(log) == {base: content for base, content in before.items() if base < end}
    disk.cut_power(Random(offset))
    again = opened(disk)
    for candidate in (log, again):
        if candidate is again:
            assert contents(again) == {base: content for base, content in before.items() if base < end}
        assert candidate.latest_epoch == ((end - 1) // 20 if end else None)
        assert candidate.end_offset_for_epoch(0) == ((0, min(end, 20)) if end else (-1, -1))
        known = {entry.producer_id: entry.last_sequence for entry in candidate.producers()}
        expected = {place % 2: place // 2 * 2 + 1 for place in range(end // 2)}
        assert known == expected
    newest = again.max_timestamp()
    assert (newest.timestamp_ms if newest else None) == (NOW_MS + end // 2 - 1 if end else None)


def test_what_is_appended_afterwards_takes_the_place_of_what_was_there() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    log.truncate_to(24)
    for number in range(5):
        assert append(log, batch_of(b"new", b"%d" % number), leader_epoch=7).base_offset == 24 + 2 * number
    log.close()
    again = opened(disk)
    assert again.end_offset == 34
    assert list(contents(again)) == list(range(0, 34, 2))
    assert again.end_offset_for_epoch(6) == (1, 24)
    assert again.end_offset_for_epoch(7) == (7, 34)


def test_a_sync_in_flight_claims_nothing_that_was_taken_back() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    ticket = log.begin_sync(checkpoint=True)
    assert ticket is not None
    log.truncate_to(10)
    append(log, batch_of(b"new"), leader_epoch=5)
    ticket.run()
    log.finish_sync(ticket)
    assert log.synced_offset == 10
    disk.cut_power(Random(3))
    assert opened(disk).end_offset in (10, 11)


def test_a_read_in_flight_notices() -> None:
    log = filled(PowerCutDisk())
    piece = log.read(50, 10_000, upto=60, at_least_one=True)
    log.truncate_to(50)
    append(log, batch_of(b"new", b"other"), leader_epoch=5)
    assert piece.cached() is None
    with pytest.raises(PenstockError) as refusal:
        piece.load()
    assert refusal.value.problem is Problem.OFFSET_NOT_AVAILABLE
    assert bytes_at(log, 50)


def test_beyond_the_end_is_nothing_to_do() -> None:
    log = filled(PowerCutDisk())
    log.truncate_to(60)
    assert log.end_offset == 60


@pytest.mark.parametrize("operation", ["sync", "truncate", "remove", "sync_directory", "rename"])
def test_a_truncation_that_fails_ends_the_log_and_a_new_opening_has_all_that_must_be(operation: str) -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    before = contents(log)
    sync(log)
    disk.fail_next(operation, errno.EIO)
    with pytest.raises(PenstockError) as refusal:
        log.truncate_to(31)
    assert refusal.value.problem is Problem.STORAGE_FAILED
    with pytest.raises(PenstockError):
        append(log, batch_of(b"x"), leader_epoch=9)
    again = opened(disk)
    assert again.end_offset >= 30
    assert contents(again) == {base: content for base, content in before.items() if base < again.end_offset}


def test_back_to_its_start_a_log_still_knows_its_producers() -> None:
    """Of their batches nothing is left: the first segments were deleted, all others truncated."""
    disk = PowerCutDisk()
    log = filled(disk)
    start = log.segments[2].base_offset
    log.delete_records(start)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert log.segments[0].base_offset == start
    log.truncate_to(start)
    batches = start // 2
    known = {place % 2: place // 2 * 2 + 1 for place in range(batches)}
    disk.cut_power(Random(1))
    for candidate in (log, opened(disk)):
        assert (candidate.start_offset, candidate.end_offset, candidate.segments) == (start, start, [])
        assert {entry.producer_id: entry.last_sequence for entry in candidate.producers()} == known


def test_a_log_that_starts_within_the_batch_that_goes_ends_at_its_start() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    log.delete_records(31)
    log.truncate_to(31)
    for candidate in (log, opened(disk)):
        assert (candidate.start_offset, candidate.end_offset, candidate.size_bytes) == (31, 31, 0)
    assert append(log, batch_of(b"new"), leader_epoch=7).base_offset == 31
    disk.cut_power(Random(1))
    again = opened(disk)
    assert again.start_offset == 31
    assert not again.recovery.damage


def test_below_its_start_there_is_nothing_to_take_back() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    log.delete_records(30)
    log.truncate_to(10)
    for candidate in (log, opened(disk)):
        assert (candidate.start_offset, candidate.end_offset) == (30, 30)
        assert candidate.latest_epoch is None


@pytest.mark.parametrize("power_fails", [False, True])
def test_a_start_that_was_written_down_and_lies_beyond_the_cut_takes_nothing_that_comes_later(
    power_fails: bool,
) -> None:
    """It was on its way when another replica turned out to be right about the end of the log."""
    disk = PowerCutDisk()
    log = filled(disk)
    log.write_start(50)
    log.truncate_to(24)
    for number in range(20):
        append(log, batch_of(b"new", b"%d" % number), leader_epoch=7)
    sync(log)
    written = contents(log)
    if power_fails:
        disk.cut_power(Random(1))
    again = opened(disk)
    assert (again.start_offset, again.end_offset) == (0, 64)
    assert contents(again) == written


def test_a_start_that_was_written_down_before_the_cut_stays() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    log.write_start(10)
    log.truncate_to(24)
    disk.cut_power(Random(1))
    assert opened(disk).start_offset == 10


def test_a_start_that_waits_while_the_log_is_cut_is_not_written_down_beyond_its_end() -> None:
    """All three wait for the same file; the truncation comes before the start that was within the log when it came."""
    memory = PowerCutDisk()
    disk = FaultyDisk(memory)
    log = filled(disk)
    removals = disk.count("remove")
    disk.hold_syncs_of("start-offset")
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(log.write_start, 10)
        while not disk.being_synced:
            time.sleep(0.001)
        cut = threads.submit(log.truncate_to, 24)
        # It has found where to cut, and has nothing else to do before it waits.
        while disk.count("remove") == removals:
            time.sleep(0.001)
        second = threads.submit(log.write_start, 50)
        while not second.running():
            time.sleep(0.001)
        disk.syncs_may_run.set()
        first.result()
        cut.result()
        assert second.exception() is None or isinstance(second.exception(), PenstockError)
    for number in range(20):
        append(log, batch_of(b"new", b"%d" % number), leader_epoch=7)
    sync(log)
    memory.cut_power(Random(1))
    again = opened(memory)
    assert (again.start_offset, again.end_offset) == (10, 64)


def test_a_cut_of_what_was_never_synced_vouches_for_no_file_without_a_name() -> None:
    """At any moment within it: what a power cut took with the names of files is a hole, which its leader fills."""
    settings = LogSettings(segment_bytes=350, flush_policy="os")
    for operations, seed in itertools.product(range(60), range(4)):
        disk = CrashingDisk()
        log = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
        for _ in range(12):
            append(log, batch_of(b"x" * 40))
        disk.operations_left = operations
        with suppress(PowerOff):
            log.truncate_to(10)
        disk.operations_left = None
        disk.cut_power(Random(seed))
        again = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
        assert not again.recovery.damage or first_hole(again) is not None


class DiskWithAMoment(FaultyDisk):
    """Something happens right after a `.log` was read."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.after_read: Callable[[], None] | None = None

    @contextmanager
    def operation(self, name: str, path: str) -> Iterator[None]:
        with super().operation(name, path):
            yield
        if name == "read" and path.endswith(".log") and (happens := self.after_read):
            self.after_read = None
            happens()


def test_indexes_that_were_made_before_a_truncation_are_not_used_after_it() -> None:
    """By a look-up that was on its way. The next truncation would cut in the middle of a batch."""
    settings = LogSettings(segment_bytes=2000, index_interval_bytes=100)
    below = PowerCutDisk()
    log = Log.open(below, DIRECTORY, settings, now_ms=NOW_MS)
    for _ in range(40):
        append(log, batch_of(b"x" * 40))
    log.close()
    disk = DiskWithAMoment(below)
    log = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
    for name in below.list_directory(DIRECTORY):
        if name.startswith(f"{0:020d}.") and name.endswith("index"):
            below.remove(f"{DIRECTORY}/{name}")
    disk.after_read = lambda: log.truncate_to(7)
    with suppress(PenstockError):
        log.offset_for_timestamp(NOW_MS)
    assert disk.after_read is None and log.end_offset == 7
    for _ in range(10):
        append(log, batch_of(b"y" * 77))
    sync(log)
    # What a read finds out by itself it would mend.
    log.forget_tail()
    log.truncate_to(9)
    log.close()
    again = opened(below)
    assert (log.end_offset, list(contents(again))) == (9, list(range(9)))
    assert again.recovery.damage == []
