"""Compaction of whole logs: what stays, what a crash in the middle leaves, and what others may do meanwhile."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents, headers_in, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.core.log_files import GAPS_NAME
from penstock.storage.log import Log
from penstock.units import DAY_MS, KIB, MIB
from penstock.wire.batch import read_header
from penstock.wire.records import Record, build_batch, records_of

DIRECTORY = "/data/topics/t/partition-0"
COMPACTED = LogSettings(
    cleanup_policy="compact",
    segment_bytes=1100,
    index_interval_bytes=256,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=DAY_MS,
    file_delete_delay_ms=0,
)


def opened(disk: PowerCutDisk, settings: LogSettings = COMPACTED) -> Log:
    return Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)


def put(log: Log, *entries: tuple[bytes, bytes | None], now_ms: int = NOW_MS, compression: int = 0) -> int:
    """One batch of keys and values; its base offset."""
    records = [Record(place, now_ms, key, value) for place, (key, value) in enumerate(entries)]
    batch = memoryview(build_batch(records, compression=compression))
    return append(log, batch, now_ms=now_ms).base_offset


def of_one_key(disk: PowerCutDisk, settings: LogSettings = COMPACTED) -> Log:
    log = opened(disk, settings)
    for number in range(40):
        put(log, (b"k", b"%d" % number * 60))
    return log


def compact(log: Log, now_ms: int = NOW_MS, *, bound_offset: int | None = None, key_map_bytes: int = MIB) -> bool:
    """All of it at once; whether there was something to do."""
    sync(log)
    compaction = Compaction.begin(
        log,
        bound_offset=log.end_offset if bound_offset is None else bound_offset,
        now_ms=now_ms,
        key_map_bytes=key_map_bytes,
    )
    if compaction is None:
        return False
    while not compaction.is_done:
        compaction.work()
        compaction.settle(now_ms)
    if log.replaced:
        save(log)
        assert not log.replaced
    return True


def save(log: Log) -> None:
    ticket = log.begin_sync(checkpoint=True)
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)


def records_in(log: Log) -> list[Record]:
    return [record for batch in contents(log).values() for record in records_of(batch, limit_bytes=MIB)]


def newest_in(log: Log) -> dict[bytes, bytes]:
    newest = {record.key: record.value for record in records_in(log)}
    return {key: value for key, value in newest.items() if key is not None and value is not None}


def log_files(disk: PowerCutDisk) -> list[str]:
    return [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")]


@pytest.mark.parametrize("compression", range(5))
def test_the_newest_record_of_each_key_stays_at_its_offset(compression: int) -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for number in range(60):
        put(log, (b"k%d" % (number % 7), b"%d " % number * 40), (b"only %d" % number, b"x"), compression=compression)
    before = records_in(log)
    closed_end = log.segments[-1].base_offset
    assert compact(log)
    after = records_in(log)
    assert log.clean_offset == closed_end
    newest = {record.key: record for record in before if record.offset < closed_end}
    assert after == [r for r in before if r.offset >= closed_end or newest[r.key] == r]
    assert log.size_bytes == sum(segment.size for segment in log.segments)

    log.close()
    again = opened(disk)
    assert records_in(again) == after
    assert not again.recovery.noteworthy
    assert again.clean_offset == closed_end


def test_every_offset_can_be_read_from_afterwards() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for number in range(60):
        put(log, (b"k%d" % (number % 3), b"x" * 100))
    compact(log)
    for is_cold in (False, True):
        disk.is_cold = is_cold
        for offset in range(log.end_offset):
            piece = log.read(offset, MIB, upto=log.end_offset, at_least_one=True)
            header = read_header(piece.cached() or piece.load())
            assert header.next_offset > offset
            assert log.read(offset, 1, upto=log.end_offset, at_least_one=True).length


@pytest.mark.parametrize("max_bytes", [1, 300, 1000, 1500, 3000])
def test_readers_with_little_room_pass_a_gap_between_large_batches(max_bytes: int) -> None:
    disk = PowerCutDisk()
    log = opened(disk, replace(COMPACTED, segment_bytes=100 * KIB))
    keys = [b"first", b"a", b"again", b"again", b"b", b"again", b"c", b"last"]
    for place, key in enumerate(keys):
        put(log, (key, b"%d" % place * 900))
    log.roll(NOW_MS)
    put(log, (b"active", b""))
    assert compact(log)
    left = [offset for offset in range(9) if offset not in (2, 3)]
    for is_cold in (False, True):
        disk.is_cold = is_cold
        for offset in range(log.end_offset):
            data = bytes_at(log, offset, max_bytes=max_bytes)
            assert headers_in(data)[0].base_offset == min(each for each in left if each >= offset)
    assert not any(segment.damage for segment in log.segments)


def test_small_segments_become_one_and_the_old_files_go() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for number in range(100):
        put(log, (b"same", b"%d" % number * 30))
    before = len(log_files(disk))
    compact(log)
    # The next one finds them small.
    put(log, *[(b"same", b"y" * 100)] * 10)
    put(log, (b"same", b"z"))
    compact(log)
    assert len(log.segments) < before / 2
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert len(log_files(disk)) == len(log.segments)
    assert newest_in(log) == {b"same": b"z"}


def test_only_what_is_below_the_bound_is_looked_at() -> None:
    log = opened(PowerCutDisk())
    for number in range(60):
        put(log, (b"same", b"%d" % number * 50))
    segments = list(log.segments)
    bound_offset = segments[2].next_offset - 1
    assert compact(log, bound_offset=bound_offset)
    assert log.clean_offset == segments[2].base_offset
    assert log.segments[-len(segments) + 2 :] == segments[2:]
    assert not compact(log, bound_offset=bound_offset)


def test_more_keys_than_fit_the_map_take_several_passes() -> None:
    log = opened(PowerCutDisk(), replace(COMPACTED, segment_bytes=64 * KIB))
    for number in range(60):
        put(log, *[(b"k%d" % (100 * (number % 20) + key), b"%d" % number) for key in range(100)])
    expected = newest_in(log)
    closed_end = log.segments[-1].base_offset
    # Room for 768 keys.
    assert compact(log, key_map_bytes=0)
    assert newest_in(log) == expected
    keys = [record.key for record in records_in(log) if record.offset < closed_end]
    assert len(keys) == len(set(keys))
    assert log.clean_offset == closed_end


def test_a_batch_of_more_keys_than_fit_the_map_is_compacted_in_parts() -> None:
    log = opened(PowerCutDisk(), replace(COMPACTED, segment_bytes=64 * KIB))
    for value in (b"old", b"new"):
        put(log, *[(b"%d" % key, value) for key in range(2000)])
    put(log, (b"filler", b"x" * 60 * KIB))
    # Room for 768 keys.
    assert compact(log, key_map_bytes=0)
    assert [(record.key, record.value) for record in records_in(log)][:-1] == [
        (b"%d" % key, b"new") for key in range(2000)
    ]
    assert log.clean_offset == log.segments[-1].base_offset == 4000


def test_deleted_keys_go_after_their_time_and_never_come_back() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    put(log, (b"gone", b"1" * 600))
    put(log, (b"kept", b"1" * 600))
    put(log, (b"gone", None))
    put(log, (b"filler", b"x" * 1000))
    compact(log)
    assert [record.key for record in records_in(log)] == [b"kept", b"gone", b"filler"]
    for now_ms, keys in ((NOW_MS + DAY_MS - 1, {b"kept", b"gone"}), (NOW_MS + DAY_MS, {b"kept"})):
        put(log, (b"filler", b"x" * 1000), now_ms=now_ms)
        compact(log, now_ms)
        assert {record.key for record in records_in(log)} == keys | {b"filler"}


def test_a_living_producer_can_go_on_and_repeat() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for number in range(8):
        append(log, batch_of(b"%d" % number * 200, producer_id=5, producer_epoch=1, base_sequence=number))
    put(log, (b"filler", b"x" * 1000))
    # Records without a key go, so every batch of the producer is emptied.
    compact(log)
    assert [record.key for record in records_in(log)] == [b"filler"]
    log.close()
    disk.remove(f"{DIRECTORY}/checkpoint")
    again = opened(disk)
    repeated = append(again, batch_of(b"6" * 200, producer_id=5, producer_epoch=1, base_sequence=6))
    assert (repeated.base_offset, repeated.duplicate) == (6, True)
    following = append(again, batch_of(b"8", producer_id=5, producer_epoch=1, base_sequence=8))
    assert not following.duplicate


def test_nothing_is_written_when_nothing_changes() -> None:
    disk = PowerCutDisk()
    settings = replace(COMPACTED, segment_bytes=300)
    log = opened(disk, settings)
    for number in range(6):
        put(log, (b"%d" % number, b"x" * 150))
    files = log_files(disk)
    assert compact(log)
    assert log_files(disk) == files
    assert log.replaced == []


def test_the_last_segment_is_closed_in_time_for_the_largest_lag() -> None:
    lag_ms = DAY_MS
    log = opened(PowerCutDisk(), replace(COMPACTED, max_compaction_lag_ms=lag_ms, min_cleanable_dirty_ratio=1.0))
    put(log, (b"k", b"old"))
    put(log, (b"k", b"new"))
    for now_ms, expected in ((NOW_MS + lag_ms - 1, False), (NOW_MS + lag_ms, False), (NOW_MS + lag_ms + 1, True)):
        log.roll_if_due(now_ms)
        assert compact(log, now_ms) is expected
    assert [record.value for record in records_in(log)] == [b"new"]


def test_damage_ends_it_and_is_known_afterwards() -> None:
    disk = PowerCutDisk()
    log = of_one_key(disk)
    sync(log)
    victim = log.segments[1]
    disk.damage(victim.path + ".log", 100, b"\xff\xff\xff")
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    assert compaction is not None
    with pytest.raises(PenstockError) as refusal:
        while not compaction.is_done:
            compaction.work()
            compaction.settle(NOW_MS)
    compaction.abandon()
    assert refusal.value.problem is Problem.CORRUPT_RECORDS
    assert victim.damage
    assert victim in log.segments
    # What is before it can still be compacted.
    assert compact(log)
    assert log.clean_offset == victim.base_offset


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for number in range(40):
        put(log, (b"k%d" % (number % 5), b"%d" % number * 60))
    before = contents(log)
    sync(log)
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    assert compaction is not None
    disk.fail_next("write", errno.ENOSPC, path_part=".tmp")
    with pytest.raises(OSError, match="No space left"):
        while not compaction.is_done:
            compaction.work()
            compaction.settle(NOW_MS)
    compaction.abandon()
    assert contents(log) == before
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".tmp")]
    assert compact(log)


def test_a_log_that_was_truncated_meanwhile_is_left_alone() -> None:
    disk = PowerCutDisk()
    log = of_one_key(disk)
    sync(log)
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    assert compaction is not None
    compaction.work()
    log.truncate_to(3)
    for number in range(3, 40):
        put(log, (b"k", b"new %d" % number * 60))
    before = contents(log)
    compaction.settle(NOW_MS)
    assert compaction.is_done
    assert contents(log) == before
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert not [name for name in log_files(disk) if "-" in name]
    assert compact(log)
    assert newest_in(log)[b"k"] == b"new 39" * 60


def test_what_is_abandoned_leaves_no_file_but_the_word_of_gaps() -> None:
    disk = PowerCutDisk()
    log = of_one_key(disk)
    sync(log)
    files = disk.list_directory(DIRECTORY)
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    assert compaction is not None
    compaction.work()
    assert disk.list_directory(DIRECTORY) != files
    compaction.abandon()
    assert disk.list_directory(DIRECTORY) == sorted([*files, GAPS_NAME])
    compaction.work()
    assert compaction.is_done


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    log = of_one_key(PowerCutDisk(), LogSettings(segment_bytes=1100))
    assert not compact(log)


def prepared(disk: PowerCutDisk) -> tuple[Log, dict[bytes, bytes]]:
    """Many small segments, a key whose deletion marker may go, and what must be there whatever happens."""
    log = opened(disk, replace(COMPACTED, segment_bytes=450))
    put(log, (b"gone", b"1" * 200), (b"first", b"x"))
    put(log, (b"gone", None), (b"second", b"x" * 200))
    put(log, (b"filler", b"x" * 400))
    compact(log)
    for number in range(12):
        put(log, (b"k%d" % (number % 3), b"%d" % number * 90), (b"only %d" % number, b"y"))
    sync(log)
    log.settings = replace(COMPACTED, segment_bytes=2000)
    return log, newest_in(log)


def test_a_power_cut_at_any_operation_loses_no_key_and_brings_none_back() -> None:
    later_ms = NOW_MS + 2 * DAY_MS
    operations, has_finished = 0, False
    while not has_finished:
        for seed in range(5):
            disk = CrashingDisk()
            log, expected = prepared(disk)
            disk.operations_left = operations
            with suppress(PowerOff):
                assert compact(log, later_ms)
                deletion = log.apply_retention(later_ms)
                assert deletion is not None
                deletion.run()
                has_finished = True
            disk.operations_left = None
            disk.cut_power(Random(seed))
            log = opened(disk)
            assert newest_in(log) == expected
            assert not log.recovery.damage
        operations += 1
    # It was worth the trouble: there were this many moments to fail.
    assert operations > 40


def test_readers_of_a_replaced_segment_are_not_disturbed() -> None:
    disk = PowerCutDisk()
    log = of_one_key(disk)
    disk.is_cold = True
    piece = log.read(0, 4 * KIB, upto=log.end_offset, at_least_one=True)
    expected = piece.load()
    again = log.read(0, 4 * KIB, upto=log.end_offset, at_least_one=True)
    compact(log)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert again.load() == expected
