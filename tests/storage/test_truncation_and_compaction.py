"""Taking back the end of a log that is compacted: what was replaced, and what is on its way, never comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, bytes_at, contents

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.log import Log
from penstock.units import MIB
from penstock.wire.records import Record, build_batch, records_of

DIRECTORY = "/data/p"
DELAY_MS = 60_000
# One batch in each segment, until compaction merges them.
SMALL = LogSettings(
    cleanup_policy="compact",
    segment_bytes=200,
    index_interval_bytes=256,
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=DELAY_MS,
)
MERGED = replace(SMALL, segment_bytes=10_000)


def opened(disk: PowerCutDisk) -> Log:
    return Log.open(disk, DIRECTORY, SMALL, now_ms=NOW_MS)


def put(log: Log, *keys: bytes, value: bytes = b"v" * 80) -> None:
    """One batch."""
    append(log, memoryview(build_batch([Record(place, NOW_MS, key, value) for place, key in enumerate(keys)])))


def filled(disk: PowerCutDisk, keys: int = 12) -> Log:
    """Twelve batches of one record, in as many segments."""
    log = opened(disk)
    for number in range(12):
        put(log, b"key-%d" % (number % keys))
    save(log)
    return log


def save(log: Log) -> None:
    ticket = log.begin_sync(checkpoint=True)
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)


def begun(log: Log, settings: LogSettings = MERGED) -> Compaction:
    log.settings = settings
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    log.settings = SMALL
    assert compaction is not None
    return compaction


def compact(log: Log, settings: LogSettings = MERGED) -> None:
    """Into large segments; what they replaced waits for a checkpoint."""
    for _ in steps(begun(log, settings)):
        pass


def steps(compaction: Compaction) -> Iterator[None]:
    while not compaction.is_done:
        compaction.work()
        compaction.settle(NOW_MS)
        yield


def keys_in(log: Log) -> dict[int, bytes | None]:
    batches = contents(log).values()
    return {record.offset: record.key for batch in batches for record in records_of(batch, limit_bytes=MIB)}


@pytest.mark.parametrize("offset", [0, 1, 5, 10])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("end", ["kill", "power cut", "restart"])
def test_what_compaction_replaced_is_gone_too(offset: int, named: bool, end: str) -> None:
    """Also when no checkpoint has named yet what replaced it."""
    disk = PowerCutDisk()
    log = filled(disk)
    compact(log)
    assert len(log.segments) == 2
    if named:
        save(log)
    log.truncate_to(offset)
    assert list(contents(log)) == list(range(offset))
    if end == "power cut":
        disk.cut_power(Random(offset))
    elif end == "restart":
        log.close()
    again = opened(disk)
    assert (again.start_offset, again.end_offset) == (0, offset)
    assert list(contents(again)) == list(range(offset))
    assert not again.recovery.damage


@pytest.mark.parametrize("offset", [0, 3, 5])
def test_a_power_cut_at_any_operation_leaves_all_of_it_or_what_should_be_left(offset: int) -> None:
    """Segments of merged ones, and others; and sometimes a process that died and is in its next life for a while."""
    operations, cuts, done = 0, 0, False
    while not done:
        for number in range(4):
            choose = Random(4 * operations + number)
            disk = CrashingDisk()
            log = filled(disk)
            compact(log, replace(SMALL, segment_bytes=800))
            if number % 2:
                save(log)
            for key in (b"later", b"later still", b"latest"):
                put(log, key)
            save(log)
            before = keys_in(log)
            disk.operations_left = operations
            with suppress(PowerOff):
                log.truncate_to(offset)
                done = True
            disk.operations_left = None
            if number == 3:
                disk.operations_left = choose.randrange(40)
                with suppress(PowerOff):
                    opened(disk)
                disk.operations_left = None
            disk.cut_power(choose)
            after = opened(disk)
            cuts += after.end_offset == offset
            assert after.end_offset in (offset, 15) if not done else (offset,)
            assert keys_in(after) == {place: key for place, key in before.items() if place < after.end_offset}
            assert not after.recovery.damage
        operations += 1
    assert 0 < cuts < operations * 4


@pytest.mark.parametrize("given_out", [False, True])
def test_what_is_written_in_the_place_of_what_was_replaced_stays(given_out: bool) -> None:
    """New segments get the names of those that wait to be deleted."""
    disk = PowerCutDisk()
    log = filled(disk)
    compact(log)
    save(log)
    deletion = log.apply_retention(NOW_MS + DELAY_MS) if given_out else None
    log.truncate_to(3)
    for number in range(6):
        put(log, b"new-%d" % number)
    save(log)
    expected = keys_in(log)
    deletion = deletion or log.apply_retention(NOW_MS + DELAY_MS)
    if deletion is not None:
        deletion.run()
    disk.cut_power(Random(1))
    again = opened(disk)
    assert keys_in(again) == expected
    assert list(expected) == list(range(9))


def test_a_deletion_that_failed_is_tried_again_and_then_done() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    compact(log)
    save(log)
    deletion = log.apply_retention(NOW_MS + DELAY_MS)
    assert deletion is not None
    disk.fail_next("remove", 5)
    with pytest.raises(OSError):
        deletion.run()
    deletion = log.apply_retention(NOW_MS + DELAY_MS)
    assert deletion is not None
    deletion.run()
    assert log.apply_retention(NOW_MS + DELAY_MS) is None
    assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")] == [
        "00000000000000000000-1.log",
        "00000000000000000011.log",
    ]


@pytest.mark.parametrize("settled", [False, True])
def test_what_compaction_had_ready_is_void(settled: bool) -> None:
    """Complete and on disk, but not in use: a start must not take it for the log."""
    disk = PowerCutDisk()
    log = filled(disk)
    compaction = begun(log)
    compaction.work()
    assert "00000000000000000000-1.log" in disk.list_directory(DIRECTORY)
    log.truncate_to(0)
    if settled:
        compaction.settle(NOW_MS)
    disk.cut_power(Random(1))
    again = opened(disk)
    assert (again.end_offset, again.segments) == (0, [])
    assert not again.recovery.damage


def test_what_compaction_makes_afterwards_is_void() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    compaction = begun(log)
    log.truncate_to(0)
    put(log, b"new")
    put(log, b"newer")
    save(log)
    for _ in steps(compaction):
        pass
    assert log.clean_offset == 0
    compact(log)
    for candidate in (log, opened(disk)):
        assert keys_in(candidate) == {0: b"new", 1: b"newer"}


def test_the_next_compaction_takes_no_name_that_waits_to_be_deleted() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    compaction = begun(log)
    compaction.work()
    log.truncate_to(0)
    compaction.settle(NOW_MS)
    for _ in range(3):
        put(log, b"new")
    save(log)
    compact(log)
    save(log)
    expected = keys_in(log)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert keys_in(opened(disk)) == expected


def test_a_record_does_not_go_for_a_newer_one_that_was_taken_back() -> None:
    """Two keys in turn. Compaction knows of the newest of each, which is then truncated; nothing may go for it."""
    disk = PowerCutDisk()
    log = filled(disk, keys=2)
    # In small segments: the first new one is ready before anything else is.
    compaction = begun(log, SMALL)
    passing = steps(compaction)
    next(passing)
    assert not compaction.is_done
    left = {offset: key for offset, key in keys_in(log).items() if offset < 4}
    log.truncate_to(4)
    for _ in passing:
        pass
    assert keys_in(log) == left
    assert log.clean_offset <= 4


def test_a_cut_where_compaction_left_a_gap_is_not_beyond_the_offset() -> None:
    """Else a follower would not fetch the records that the leader has there."""
    disk = PowerCutDisk()
    log = filled(disk, keys=1)
    compact(log)
    assert list(keys_in(log)) == [10, 11], "all before is gone"
    log.truncate_to(5)
    assert log.end_offset <= 5
    put(log, b"new")
    end_offset = log.end_offset
    expected = keys_in(log)
    save(log)
    disk.cut_power(Random(1))
    again = opened(disk)
    assert (again.end_offset, keys_in(again)) == (end_offset, expected)


@pytest.mark.parametrize("index_interval_bytes", [1, 4096])
def test_a_read_in_a_gap_at_the_cut_goes_on_behind_it(index_interval_bytes: int) -> None:
    disk = PowerCutDisk()
    settings = replace(SMALL, index_interval_bytes=index_interval_bytes)
    log = Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)
    for key in (b"a", b"b", b"c", b"b", b"b", b"d", b"last"):
        put(log, key)
    save(log)
    compact(log, replace(settings, segment_bytes=10_000))
    log.settings = settings
    assert list(keys_in(log)) == [0, 2, 4, 5, 6]
    log.truncate_to(4)
    assert log.end_offset == 4
    assert bytes_at(log, 3) == b""
    for _ in range(3):
        put(log, b"new")
    for candidate in (log, Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)):
        assert list(keys_in(candidate)) == [0, 2, 4, 5, 6]
        assert bytes_at(candidate, 3) == bytes_at(candidate, 4) != b""
        assert not candidate.recovery.damage


def test_a_read_in_flight_of_a_replaced_segment_notices() -> None:
    log = filled(PowerCutDisk())
    piece = log.read(7, 10_000, upto=12, at_least_one=True)
    assert piece.cached()
    compact(log)
    log.truncate_to(5)
    assert piece.cached() is None
    with pytest.raises(PenstockError) as refusal:
        piece.load()
    assert refusal.value.problem is Problem.OFFSET_NOT_AVAILABLE
    piece = log.read(3, 10_000, upto=5, at_least_one=True)
    assert piece.load()
    assert bytes_at(log, 4)
