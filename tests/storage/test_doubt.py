"""What a sync that failed left in the page cache is not taken for durable, even if nobody lived to see it fail."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents, sync
from tests.storage.journaled_node import JournaledNode, NothingKept

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk
from penstock.errors import PenstockError
from penstock.storage.log import Log
from penstock.storage.restart import restart_at

DIRECTORY = "/data/p"
SETTINGS = LogSettings(segment_bytes=1000)


def opened(disk: Disk, settings: LogSettings = SETTINGS) -> Log:
    return Log.open(disk, DIRECTORY, settings, now_ms=NOW_MS)


def written(log: Log, count: int) -> None:
    for _ in range(count):
        append(log, batch_of(b"x" * 150))


def sync_in_vain(log: Log, disk: PowerCutDisk) -> None:
    """And the process is killed before it can leave word of it."""
    ticket = log.begin_sync()
    assert ticket is not None
    disk.fail_next("sync", errno.EIO, path_part=".log")
    with pytest.raises(OSError):
        ticket.run()


@pytest.mark.parametrize("before", [0, 1, 3, 20])
@pytest.mark.parametrize("more", [1, 3, 20])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_what_a_killed_process_could_not_sync_is_synced_by_the_next(before: int, more: int, checkpoint: bool) -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    written(log, before)
    if (ticket := log.begin_sync(checkpoint=checkpoint)) is not None:
        ticket.run()
        log.finish_sync(ticket)
    written(log, more)
    sync_in_vain(log, disk)
    again = opened(disk)
    assert again.end_offset == again.durable_offset == before + more
    disk.cut_power(NothingKept())
    assert list(contents(opened(disk))) == list(range(before + more))


def test_what_the_journal_had_of_it_is_not_needed_any_more() -> None:
    node = JournaledNode("t")
    node.write("t", b"acknowledged")
    node.commit()
    sync_in_vain(node.logs["t"], node.memory)
    node.open()
    durable_offset = node.logs["t"].durable_offset
    assert durable_offset == 2
    node.cut_power(keep_journal=False)
    assert node.logs["t"].end_offset == durable_offset


def test_only_what_came_after_the_last_good_sync_is_written_again() -> None:
    disk = PowerCutDisk()
    log = opened(disk, replace(SETTINGS, segment_bytes=2000))
    for _ in range(4):
        written(log, 5)
        sync(log)
    watched = FaultyDisk(disk)
    again = opened(watched)
    assert again.recovery.scanned_bytes > 3000
    assert watched.count("write", ".log") == 0
    written(again, 3)
    watched = FaultyDisk(disk)
    assert opened(watched).end_offset == 23
    assert watched.count("write", ".log") > 0


def test_with_os_nobody_waits_for_it() -> None:
    disk = PowerCutDisk()
    log = opened(disk, replace(SETTINGS, flush_policy="os"))
    written(log, 20)
    watched = FaultyDisk(disk)
    assert opened(watched, replace(SETTINGS, flush_policy="os")).end_offset == 20
    assert watched.count("write", ".log") == 0


def test_with_os_the_first_sync_makes_up_for_it() -> None:
    disk = PowerCutDisk()
    settings = replace(SETTINGS, flush_policy="os")
    log = opened(disk, settings)
    written(log, 20)
    sync_in_vain(log, disk)
    again = opened(disk, settings)
    assert again.synced_offset == 0
    assert again.close() is None
    disk.cut_power(NothingKept())
    assert list(contents(opened(disk, settings))) == list(range(20))


def test_what_was_synced_once_does_not_speak_for_what_took_its_place() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    written(log, 20)
    sync(log)
    log.truncate_to(11)
    written(log, 9)
    sync_in_vain(log, disk)
    again = opened(disk)
    assert again.durable_offset == 20
    disk.cut_power(NothingKept())
    assert list(contents(opened(disk))) == list(range(20))


def test_what_was_synced_once_does_not_speak_for_a_log_that_began_anew() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    written(log, 20)
    sync(log)
    restart_at(log, 5)
    written(log, 9)
    sync_in_vain(log, disk)
    assert opened(disk).durable_offset == 14
    disk.cut_power(NothingKept())
    assert list(contents(opened(disk))) == list(range(5, 14))


def test_a_sync_that_ends_after_a_truncation_speaks_for_nothing() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    written(log, 20)
    ticket = log.begin_sync()
    assert ticket is not None
    log.truncate_to(11)
    ticket.run()
    log.finish_sync(ticket)
    written(log, 9)
    sync_in_vain(log, disk)
    assert opened(disk).durable_offset == 20
    disk.cut_power(NothingKept())
    assert list(contents(opened(disk))) == list(range(20))


def test_a_start_that_could_not_sync_leaves_it_to_the_next() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    written(log, 3)
    disk.fail_next("sync", errno.EIO, path_part=".log")
    with pytest.raises(PenstockError, match="cannot be opened"):
        opened(disk)
    assert opened(disk).durable_offset == 3
    disk.cut_power(NothingKept())
    assert list(contents(opened(disk))) == [0, 1, 2]


def test_where_the_mark_cannot_be_written_a_sync_is_still_good() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    written(log, 3)
    sync(log)
    faulty = FaultyDisk(disk)
    log = opened(faulty)
    faulty.fail("open", errno.ENOSPC, path_part="/synced")
    written(log, 3)
    sync(log)
    assert log.durable_offset == 6
    assert opened(disk).end_offset == 6
