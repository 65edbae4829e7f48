"""When a log wants a sync, when it writes a checkpoint, and what it holds open."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents, sync

from penstock.config.log import LogSettings
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log
from penstock.units import MINUTE_MS

DIRECTORY = "/data/p"


def opened(disk: PowerCutDisk, **settings: object) -> Log:
    return Log.open(disk, DIRECTORY, LogSettings(**settings), now_ms=NOW_MS)  # type: ignore[arg-type]


def descriptors(directory: Path) -> int:
    """Open files below it: what other tests have left open until they are collected does not count."""
    targets = []
    for name in os.listdir("/proc/self/fd"):
        # Threads that earlier tests have left behind close theirs at any time.
        with suppress(FileNotFoundError):
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(target.startswith(str(directory)) for target in targets)


def fall_idle(log: Log) -> None:
    ticket = log.begin_sync(NOW_MS + MINUTE_MS)
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)


def test_acked_wants_every_append_synced() -> None:
    log = opened(PowerCutDisk())
    append(log, batch_of(b"a"))
    assert log.begin_sync(NOW_MS) is not None


def test_os_leaves_it_to_the_operating_system() -> None:
    log = opened(PowerCutDisk(), flush_policy="os")
    append(log, batch_of(b"a"))
    assert log.begin_sync(NOW_MS) is None
    assert log.begin_sync() is not None, "whoever asks without a time gets it"


def test_os_counts_records_where_flush_messages_says_so() -> None:
    log = opened(PowerCutDisk(), flush_policy="os", flush_messages=5)
    append(log, batch_of(b"a", b"b", b"c", b"d"))
    assert log.begin_sync(NOW_MS) is None
    append(log, batch_of(b"e"))
    assert log.begin_sync(NOW_MS) is not None


def test_os_counts_from_the_oldest_record_where_flush_ms_says_so() -> None:
    log = opened(PowerCutDisk(), flush_policy="os", flush_ms=1000)
    append(log, batch_of(b"a"), now_ms=NOW_MS)
    append(log, batch_of(b"b"), now_ms=NOW_MS + 900)
    assert log.begin_sync(NOW_MS + 999) is None
    ticket = log.begin_sync(NOW_MS + 1000)
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    append(log, batch_of(b"c"), now_ms=NOW_MS + 1500)
    assert log.begin_sync(NOW_MS + 2000) is None
    assert log.begin_sync(NOW_MS + 2500) is not None


@pytest.mark.parametrize("policy", ["acked", "os"])
def test_a_log_that_falls_idle_writes_its_checkpoint(policy: str) -> None:
    disk = PowerCutDisk()
    log = opened(disk, flush_policy=policy)
    append(log, batch_of(b"a"))
    sync(log)
    assert not disk.exists(f"{DIRECTORY}/checkpoint")
    assert log.begin_sync(NOW_MS + 1000) is None
    fall_idle(log)
    assert log.begin_sync(NOW_MS + 2 * MINUTE_MS) is None, "once is enough"
    again = opened(disk)
    assert (again.end_offset, again.recovery.scanned_bytes) == (1, 0)


def test_an_idle_partition_holds_no_descriptor(tmp_path: Path) -> None:
    logs = [Log.open(LocalDisk(), f"{tmp_path}/{number}", LogSettings(), now_ms=NOW_MS) for number in range(20)]
    for log in logs:
        append(log, batch_of(b"a"))
    assert descriptors(tmp_path) == 20, "one each while they are written to"
    for log in logs:
        fall_idle(log)
    assert descriptors(tmp_path) == 0
    for log in logs:
        append(log, batch_of(b"b"))
        log.close()
    assert descriptors(tmp_path) == 0
    again = [Log.open(LocalDisk(), f"{tmp_path}/{number}", LogSettings(), now_ms=NOW_MS) for number in range(20)]
    assert descriptors(tmp_path) == 0
    assert [list(contents(log)) for log in again] == [[0, 1]] * 20


def test_no_descriptor_left_is_a_refusal_and_no_end() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    append(log, batch_of(b"a"))
    fall_idle(log)
    disk.fail_next("open", errno.EMFILE, path_part=".log", times=2)
    for _ in range(2):
        with pytest.raises(PenstockError, match="Too many open files") as refusal:
            append(log, batch_of(b"refused"), leader_epoch=1)
        assert refusal.value.problem is Problem.STORAGE_FAILED
        assert log.failure is None
        assert log.latest_epoch == 0
    assert append(log, batch_of(b"b"), leader_epoch=1).base_offset == 1
    assert list(contents(log)) == [0, 1]


def test_a_sync_for_which_no_descriptor_is_left_can_begin_later() -> None:
    disk = PowerCutDisk()
    log = opened(disk, flush_policy="os", index_interval_bytes=100)
    for _ in range(50):
        append(log, batch_of(b"x" * 100))
    again = opened(disk, flush_policy="os", index_interval_bytes=100)
    again.segments[-1].release_file()
    disk.fail_next("open", errno.EMFILE, path_part=".log")
    with pytest.raises(OSError, match="Too many open files"):
        again.begin_sync(checkpoint=True)
    assert again.failure is None
    again.close()
    third = opened(disk, index_interval_bytes=100)
    assert (third.end_offset, third.recovery.indexes_rebuilt) == (50, 0)
    names = [f"{DIRECTORY}/{name}" for name in disk.list_directory(DIRECTORY) if name.endswith(".index")]
    assert [disk.open(name).size() > 0 for name in names] == [True]


def test_a_checkpoint_that_fails_again_and_again_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = PowerCutDisk()
    log = opened(disk)

    def try_checkpoint() -> int:
        """How many lines there are about it then."""
        append(log, batch_of(b"x"))
        ticket = log.begin_sync(checkpoint=True)
        assert ticket is not None
        ticket.run()
        log.finish_sync(ticket)
        return sum(record.getMessage() == "log.checkpoint.failed" for record in caplog.records)

    disk.fail_next("rename", errno.ENOSPC, times=3)
    disk.fail_next("rename", errno.EIO)
    assert [try_checkpoint() for _ in range(5)] == [1, 1, 1, 2, 2]
    disk.fail_next("rename", errno.EIO)
    assert try_checkpoint() == 3


def test_reading_many_segments_keeps_few_of_them_open(tmp_path: Path) -> None:
    settings = LogSettings(segment_bytes=1024)
    log = Log.open(LocalDisk(), f"{tmp_path}/p", settings, now_ms=NOW_MS)
    before = descriptors(tmp_path)
    for number in range(200):
        append(log, batch_of(b"%d" % number * 100))
    sync(log)
    assert list(contents(log)) == list(range(200))
    assert len(os.listdir(f"{tmp_path}/p")) > 100
    assert descriptors(tmp_path) <= before + 5


@pytest.mark.parametrize("policy", ["acked", "os"])
def test_writing_many_segments_keeps_few_of_them_open(tmp_path: Path, policy: str) -> None:
    settings = LogSettings(segment_bytes=1024, flush_policy=policy)
    log = Log.open(LocalDisk(), f"{tmp_path}/p", settings, now_ms=NOW_MS)
    before = most = descriptors(tmp_path)
    for _ in range(200):
        append(log, batch_of(b"x" * 1000), now_ms=NOW_MS)
        ticket = log.begin_sync(NOW_MS)
        if ticket is not None:
            ticket.run()
            log.finish_sync(ticket)
        del ticket
        most = max(most, descriptors(tmp_path))
    assert len(log.segments) == 200
    assert most <= before + 24


def test_a_closed_segment_stays_open_until_it_is_synced(tmp_path: Path) -> None:
    """Whoever opens a file after the operating system failed to write it need not hear of that."""
    disk = FaultyDisk(LocalDisk())
    log = Log.open(disk, f"{tmp_path}/p", LogSettings(segment_bytes=1024), now_ms=NOW_MS)
    for _ in range(20):
        append(log, batch_of(b"x" * 1000))
    assert list(contents(log)) == list(range(20))
    opens = disk.count("open", ".log")
    ticket = log.begin_sync(checkpoint=True)
    append(log, batch_of(b"x" * 1000))
    append(log, batch_of(b"x" * 1000))
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    sync(log)
    assert disk.count("open", ".log") == opens + 2
