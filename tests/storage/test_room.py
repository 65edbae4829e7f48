"""Logs with large batches have room found ahead of them, and keep none that they do not use."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.disk.faults import FaultyDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents, sync

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, Space
from penstock.disk.local import LocalDisk
from penstock.storage.log import Log
from penstock.units import KIB, MIB, MINUTE_MS, SECOND_MS

LARGE = bytes(512 * KIB)
# Rounding, and what a file system keeps beside the bytes.
SLACK_BYTES = 128 * KIB


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    file = LocalDisk().open(f"{tmp_path}/probe", create=True)
    try:
        file.reserve(0, MIB)
    except OSError as problem:
        pytest.skip(f"this file system keeps no room for files: {problem}")
    return tmp_path / "log"


def opened(directory: Path, *, disk: Disk | None = None, segment_bytes: int = 1024 * MIB) -> Log:
    return Log.open(disk or LocalDisk(), str(directory), LogSettings(segment_bytes=segment_bytes), now_ms=NOW_MS)


def write(log: Log, value: bytes = LARGE, count: int = 4, now_ms: int = NOW_MS) -> None:
    for _ in range(count):
        append(log, batch_of(value), now_ms=now_ms)
    sync(log)


def busy(directory: Path, *, disk: Disk | None = None, segment_bytes: int = 1024 * MIB) -> Log:
    """Four megabytes in eight batches have come within a second, and more is expected."""
    log = opened(directory, disk=disk, segment_bytes=segment_bytes)
    write(log)
    write(log)
    return log


def spare_bytes(directory: Path) -> int:
    """What its segments take on the disk beyond their bytes."""
    return sum(map(_spare_bytes, directory.glob("*.log")))


def _spare_bytes(path: Path) -> int:
    found = path.stat()
    return found.st_blocks * 512 - found.st_size


def fall_idle(log: Log) -> None:
    ticket = log.begin_sync(NOW_MS + MINUTE_MS)
    assert ticket is not None and ticket.has_checkpoint
    ticket.run()
    log.finish_sync(ticket)


def test_large_batches_that_follow_on_each_other_have_room_ahead_of_them(directory: Path) -> None:
    log = opened(directory)
    write(log)
    for _ in range(5):
        write(log)
        assert spare_bytes(directory) >= 2 * MIB, "for what the next sync brings"
        assert spare_bytes(directory) <= 8 * MIB + SLACK_BYTES, "for what a few syncs bring"
    assert (directory / f"{0:020}.log").stat().st_size == log.size_bytes


def test_a_sync_that_covers_one_of_them_gives_none_back(directory: Path) -> None:
    log = busy(directory)
    for _ in range(2):
        write(log, bytes(999_000), count=1)
        assert spare_bytes(directory) >= MIB


@pytest.mark.parametrize(("value", "apart_ms"), [(bytes(100 * KIB), 1), (LARGE, 2 * SECOND_MS)], ids=["small", "slow"])
def test_what_comes_in_small_or_slowly_takes_what_it_needs(directory: Path, value: bytes, apart_ms: int) -> None:
    log = opened(directory)
    for number in range(5):
        write(log, value, now_ms=NOW_MS + number * apart_ms)
    assert spare_bytes(directory) <= SLACK_BYTES


def test_an_idle_log_gives_its_room_back_and_loses_nothing(directory: Path) -> None:
    log = busy(directory)
    assert spare_bytes(directory) >= 2 * MIB
    before = contents(log)
    fall_idle(log)
    assert spare_bytes(directory) <= SLACK_BYTES
    assert contents(log) == before
    write(log)
    write(log)
    assert spare_bytes(directory) >= 2 * MIB
    assert len(contents(log)) == 2 * len(before)


def test_so_does_one_that_cannot_write_its_checkpoint(directory: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    log = busy(directory, disk=disk)
    disk.fail("rename", errno.ENOSPC, path_part="checkpoint")
    fall_idle(log)
    assert not (directory / "checkpoint").exists()
    assert spare_bytes(directory) <= SLACK_BYTES


def test_so_does_one_to_which_little_is_appended(directory: Path) -> None:
    log = busy(directory)
    write(log, b"little", 1)
    assert spare_bytes(directory) <= SLACK_BYTES
    assert len(contents(log)) == 9


def test_so_does_one_that_is_closed(directory: Path) -> None:
    log = busy(directory)
    before = contents(log)
    log.close()
    assert spare_bytes(directory) <= SLACK_BYTES
    assert contents(opened(directory)) == before


def test_a_full_segment_keeps_none(directory: Path) -> None:
    log = opened(directory, segment_bytes=5 * MIB)
    for _ in range(10):
        write(log, count=3)
    write(log, b"small", 1)
    assert len(log.segments) > 2
    of_closed = spare_bytes(directory) - _spare_bytes(Path(f"{log.segments[-1].path}.log"))
    assert of_closed <= len(log.segments) * SLACK_BYTES
    assert len(contents(log)) == 31


def test_what_a_kill_has_left_goes_with_the_next_start(directory: Path) -> None:
    killed = opened(directory)
    write(killed, b"small")
    LocalDisk().open(f"{directory}/{0:020}.log").reserve(killed.size_bytes, 4 * MIB)
    assert spare_bytes(directory) >= 4 * MIB
    log = opened(directory)
    assert spare_bytes(directory) <= SLACK_BYTES
    assert len(contents(log)) == 4


def test_what_a_start_has_read_is_no_growth(directory: Path) -> None:
    busy(directory)
    log = opened(directory)
    write(log, b"small", 1)
    assert spare_bytes(directory) <= SLACK_BYTES
    assert len(contents(log)) == 9


def test_a_truncated_log_has_none_until_it_grows_again(directory: Path) -> None:
    log = busy(directory)
    log.truncate_to(2)
    assert spare_bytes(directory) <= SLACK_BYTES
    write(log, count=3)
    assert spare_bytes(directory) >= 2 * MIB
    assert len(contents(log)) == 5


def test_a_truncation_leaves_none_in_segments_that_were_closed_and_not_synced(directory: Path) -> None:
    log = busy(directory, segment_bytes=5 * MIB)
    for _ in range(2):
        append(log, batch_of(LARGE))
    assert len(log.segments) == 2 and spare_bytes(directory) > SLACK_BYTES
    log.truncate_to(9)
    assert spare_bytes(directory) <= SLACK_BYTES
    assert len(contents(log)) == 9


def test_scarce_room_is_left_to_others(directory: Path) -> None:
    class NearlyFull(LocalDisk):
        def space(self, path: str) -> Space:
            return Space(total_bytes=1024 * MIB, free_bytes=64 * MIB)

    log = busy(directory, disk=NearlyFull())
    assert spare_bytes(directory) <= SLACK_BYTES
    assert len(contents(log)) == 8


def test_a_log_goes_on_where_no_room_can_be_had(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    disk.fail("reserve", errno.EOPNOTSUPP)
    log = busy(tmp_path / "log", disk=disk)
    assert disk.count("reserve") > 0
    assert log.synced_offset == log.end_offset == 8
    assert len(contents(log)) == 8
