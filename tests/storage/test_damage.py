"""What a disk can do to a log: noticed, said, repaired where that is possible, and nothing wrong is ever served."""

from __future__ import annotations

import errno
from random import Random

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents, headers_in, sync
from tests.storage.damaged_log import DIRECTORY, SEGMENT, everything_but, filled, opened, problem_at

from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log

# A torn tail


@pytest.mark.parametrize("kept_bytes", [1, 30, 61, 100])
def test_a_torn_tail_is_dropped_and_said(kept_bytes: int) -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 5)
    append(log, batch_of(b"never acknowledged" * 5))
    content = disk.open(SEGMENT + ".log").read(0, log.size_bytes)
    whole = log.size_bytes - len(batch_of(b"never acknowledged" * 5))
    disk.replace(SEGMENT + ".log", content[: whole + kept_bytes])
    again = opened(disk)
    assert again.end_offset == 5
    assert again.recovery.torn_bytes == kept_bytes
    assert "torn tail" in str(again.recovery)
    assert not again.recovery.damage
    assert append(again, batch_of(b"next")).base_offset == 5
    assert list(contents(again)) == [0, 1, 2, 3, 4, 5]
    assert not opened(disk).recovery.noteworthy, "the repair is for good"


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("lost_bytes", [7, 8, 12, 16])
def test_a_torn_batch_does_not_condemn_the_one_before_it(lost_bytes: int, policy: str) -> None:
    """The first of a leader epoch is checked against the one behind it, of which a power cut may have left a part."""
    disk = PowerCutDisk()
    log = opened(disk, cleanup_policy=policy)
    for _ in range(257):
        append(log, batch_of(b"acknowledged"))
    append(log, batch_of(b"acknowledged"), leader_epoch=3)
    sync(log)
    position = log.size_bytes
    append(log, batch_of(b"never acknowledged"), leader_epoch=3)
    disk.damage(SEGMENT + ".log", position, bytes(lost_bytes))
    again = opened(disk, cleanup_policy=policy)
    assert (again.end_offset, again.recovery.damage) == (258, [])
    assert len(contents(again)) == 258


def test_zeros_behind_the_end_are_a_torn_tail() -> None:
    """What many file systems leave of a write whose size arrived before its bytes."""
    disk = PowerCutDisk()
    log, _ = filled(disk, 3)
    content = disk.open(SEGMENT + ".log").read(0, log.size_bytes)
    disk.replace(SEGMENT + ".log", content + bytes(10_000))
    again = opened(disk)
    assert (again.end_offset, again.recovery.torn_bytes) == (3, 10_000)


# Bits that flipped


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("place", [0, 7, 8, 12, 15, 16, 17, 23, 61, 80])
def test_a_flipped_bit_in_flushed_data_is_refused_and_the_rest_is_served(place: int, checkpointed: bool) -> None:
    """Also in the base offset (0 to 7) and the leader epoch (12 to 15), which no checksum covers."""
    disk = PowerCutDisk()
    log, positions = filled(disk, 9, index_interval_bytes=300)
    if checkpointed:
        log.close()
    position = positions[4] + place
    (byte,) = disk.open(SEGMENT + ".log").read(position, 1)
    disk.damage(SEGMENT + ".log", position, bytes([byte ^ 0x10]))
    again = opened(disk, index_interval_bytes=300)
    assert again.end_offset == 9
    everything_but(again, {4})
    if not checkpointed:
        assert [(damage.first_offset, damage.next_offset) for damage in again.recovery.damage] == [(4, 5)]
        assert "damaged" in str(again.recovery)
    assert append(again, batch_of(b"next")).base_offset == 9
    again.close()
    last = opened(disk, index_interval_bytes=300)
    assert last.recovery.scanned_bytes == 0
    everything_but(last, {4})


def test_the_error_says_how_to_go_on() -> None:
    disk = PowerCutDisk()
    log, positions = filled(disk, 5)
    log.close()
    disk.damage(SEGMENT + ".log", positions[2] + 70, b"????")
    again = opened(disk)
    with pytest.raises(PenstockError, match="offset 3") as refusal:
        bytes_at(again, 2)
    assert "delete records before offset 3" in str(refusal.value)
    assert again.delete_records(3) == 3
    assert list(contents(again)) == [3, 4]


def test_a_flipped_bit_in_the_newest_synced_batch_is_dropped_only_above_the_checkpoint() -> None:
    disk = PowerCutDisk()
    log, positions = filled(disk, 5)
    log.close()
    disk.damage(SEGMENT + ".log", positions[4] + 70, b"????")
    again = opened(disk)
    assert again.end_offset == 5, "an offset that was given is never given again"
    everything_but(again, {4})


def test_a_flipped_bit_is_found_even_if_the_page_is_cached() -> None:
    disk = PowerCutDisk()
    log, positions = filled(disk, 20)
    log.close()
    again = opened(disk)
    contents(again)
    disk.damage(SEGMENT + ".log", positions[10] + 70, b"????")
    everything_but(again, {10})


def test_damage_at_the_end_of_a_closed_segment_does_not_hide_the_next() -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 30, segment_bytes=1024)
    first_of_second = min(
        int(name[:20]) for name in disk.list_directory(DIRECTORY) if name.endswith(".log") and int(name[:20])
    )
    log.close()
    size = disk.open(SEGMENT + ".log").size()
    disk.damage(SEGMENT + ".log", size - 5, b"?????")
    again = opened(disk, segment_bytes=1024)
    everything_but(again, {first_of_second - 1})


# Indexes and checkpoints


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"garbage" * 50, bytes(400)])
def test_an_index_that_is_gone_or_garbage_is_rebuilt(suffix: str, content: bytes | None) -> None:
    disk = PowerCutDisk()
    settings = {"index_interval_bytes": 200, "segment_bytes": 2000}
    log, _ = filled(disk, 40, **settings)
    before = contents(log)
    log.close()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(suffix):
            if content is None:
                disk.remove(f"{DIRECTORY}/{name}")
            else:
                disk.replace(f"{DIRECTORY}/{name}", content)
    again = opened(disk, **settings)
    assert again.recovery.indexes_rebuilt > 0
    assert "rebuilt the indexes" in str(again.recovery)
    assert contents(again) == before
    found = again.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert found.offset == 0
    again.close()
    assert opened(disk, **settings).recovery.indexes_rebuilt == 0


def test_an_index_that_leads_astray_is_not_taken_for_damage() -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 40, index_interval_bytes=200)
    before = contents(log)
    log.close()
    other, _ = filled(astray := PowerCutDisk(), 1, index_interval_bytes=200)
    for number in range(39):
        append(other, batch_of(b"%d" % number * 90))
    other.close()
    disk.replace(SEGMENT + ".index", astray.open(SEGMENT + ".index").read(0, 10_000))
    assert contents(opened(disk, index_interval_bytes=200)) == before


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(100)])
def test_an_unreadable_checkpoint_means_a_full_scan(content: bytes) -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 30, segment_bytes=1024)
    before, size = contents(log), log.size_bytes
    log.close()
    disk.replace(f"{DIRECTORY}/checkpoint", content)
    again = opened(disk, segment_bytes=1024)
    assert contents(again) == before
    assert again.recovery.scanned_bytes == size
    assert "checkpoint was unreadable" in str(again.recovery)


# A full disk


def test_a_full_disk_refuses_appends_and_serves_reads_until_there_is_room() -> None:
    disk = PowerCutDisk(capacity_bytes=3000)
    log, _ = filled(disk, 5)
    with pytest.raises(PenstockError, match="disk is full") as refusal:
        for _ in range(100):
            append(log, batch_of(b"x" * 100))
    assert refusal.value.problem is Problem.STORAGE_FAILED
    end = log.end_offset
    assert list(contents(log)) == list(range(end))
    sync(log)
    disk.capacity_bytes = 100_000
    assert append(log, batch_of(b"room again")).base_offset == end
    assert list(contents(log)) == list(range(end + 1))
    disk.cut_power(Random(1))
    assert opened(disk).end_offset >= end


def test_a_full_disk_where_a_segment_must_begin() -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 8, segment_bytes=1024)
    disk.fail_next("create", errno.ENOSPC, path_part=".log", times=3)
    refused = 0
    for _ in range(10):
        try:
            append(log, batch_of(b"x" * 200))
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            refused += 1
    assert refused == 3
    assert list(contents(log)) == list(range(8 + 7))


def test_a_log_opens_on_a_full_disk() -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 5)
    append(log, batch_of(b"not synced"))
    disk.capacity_bytes = 0
    again = opened(disk)
    assert list(contents(again)) == list(range(6))


@pytest.mark.parametrize("taken", [0, 1, 61, 90])
def test_a_write_cut_short_is_finished(taken: int) -> None:
    log, _ = filled(disk := PowerCutDisk(), 2)
    disk.short_write = taken
    append(log, batch_of(b"x" * 100))
    assert list(contents(log)) == [0, 1, 2]


def test_a_failed_write_is_cut_back_before_the_next() -> None:
    log, _ = filled(disk := PowerCutDisk(), 2)
    disk.short_write = 70
    disk.fail_next("write", errno.EIO, path_part=".log")
    with pytest.raises(PenstockError):
        append(log, batch_of(b"x" * 100))
    append(log, batch_of(b"y"))
    assert list(contents(log)) == [0, 1, 2]
    assert opened(disk).end_offset == 3


def test_a_failed_write_that_cannot_be_undone_ends_the_log() -> None:
    log, _ = filled(disk := PowerCutDisk(), 2)
    disk.short_write = 70
    disk.fail_next("write", errno.EIO, path_part=".log")
    disk.fail_next("truncate", errno.EIO, path_part=".log")
    with pytest.raises(PenstockError):
        append(log, batch_of(b"x" * 100))
    with pytest.raises(PenstockError) as refusal:
        append(log, batch_of(b"y"))
    assert refusal.value.problem is Problem.STORAGE_FAILED
    assert list(headers_in(bytes_at(log, 0, upto=2)))
    again = opened(disk)
    assert (again.end_offset, again.recovery.torn_bytes) == (2, 70)


# A failing sync


def failing_sync(disk: PowerCutDisk, log: Log) -> None:
    disk.fail_next("sync", errno.EIO, path_part=".log")
    ticket = log.begin_sync()
    assert ticket is not None
    with pytest.raises(OSError):
        ticket.run()
    log.fail("fdatasync failed")


def test_after_a_failed_sync_only_what_was_synced_before_is_served() -> None:
    log, _ = filled(disk := PowerCutDisk(), 3)
    append(log, batch_of(b"unsynced"))
    failing_sync(disk, log)
    assert log.begin_sync() is None, "never tried again"
    with pytest.raises(PenstockError) as refusal:
        append(log, batch_of(b"x"))
    assert refusal.value.problem is Problem.STORAGE_FAILED
    assert len(headers_in(bytes_at(log, 0))) == 3
    assert problem_at(log, 3) is Problem.STORAGE_FAILED


def test_what_a_failed_sync_left_in_the_page_cache_is_written_again() -> None:
    """The kernel shows it and takes it for clean: opening the log and syncing is not enough."""
    log, _ = filled(disk := PowerCutDisk(), 3)
    append(log, batch_of(b"unsynced"))
    failing_sync(disk, log)
    again = opened(disk)
    assert again.end_offset == again.synced_offset == 4
    assert "written again" in str(again.recovery)
    disk.cut_power(Random(1))
    assert list(contents(opened(disk))) == [0, 1, 2, 3]


def test_a_directory_that_cannot_be_synced_fails_the_ticket() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    append(log, batch_of(b"a"))
    disk.fail_next("sync_directory", errno.EIO)
    ticket = log.begin_sync()
    assert ticket is not None
    with pytest.raises(OSError):
        ticket.run()
    assert log.synced_offset == 0


def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_sync() -> None:
    log, _ = filled(disk := PowerCutDisk(), 3)
    append(log, batch_of(b"a"))
    disk.fail_next("rename", errno.EIO)
    ticket = log.begin_sync(checkpoint=True)
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    assert log.synced_offset == 4
    log.close()
    assert list(contents(opened(disk))) == [0, 1, 2, 3]


def test_after_a_failed_sync_what_is_read_is_checked() -> None:
    """The page cache may have lost what the disk never got: zeros come back instead."""
    disk = PowerCutDisk()
    log, positions = filled(disk, 3)
    log.fail("the sync failed")
    disk.open(f"{SEGMENT}.log").write([bytes(60)], positions[1])
    assert log.read(1, 10_000, upto=3, at_least_one=True).cached() is None
    assert problem_at(log, 1) is Problem.CORRUPT_RECORDS
