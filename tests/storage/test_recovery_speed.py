"""How much of a log a start must read, and how long that takes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.batches import NOW_MS, append, batch_of, sync

from penstock.config.log import LogSettings
from penstock.disk.local import LocalDisk
from penstock.storage.log import Log
from penstock.storage.state import CHECKPOINT_BATCHES, CHECKPOINT_BYTES
from penstock.units import GIB, KIB, MIB
from penstock.wire.batch import read_header


def opened(path: Path, **settings: object) -> Log:
    return Log.open(LocalDisk(), f"{path}/p", LogSettings(**settings), now_ms=NOW_MS)  # type: ignore[arg-type]


def test_after_a_kill_only_what_follows_the_last_checkpoint_is_read(tmp_path: Path) -> None:
    log = opened(tmp_path)
    batch = batch_of(b"x")
    header = read_header(batch)
    count = CHECKPOINT_BATCHES * 2 + 1000
    for number in range(count):
        log.append(batch, header, leader_epoch=0, now_ms=NOW_MS)
        if number % 1000 == 0:
            sync(log)
    again = opened(tmp_path)
    assert again.end_offset == count
    assert 0 < again.recovery.scanned_bytes <= (CHECKPOINT_BATCHES + 1000) * len(batch)


@pytest.mark.parametrize("policy", ["acked", "os"])
def test_large_batches_are_bounded_by_their_bytes(tmp_path: Path, policy: str) -> None:
    log = opened(tmp_path, flush_policy=policy, segment_bytes=100 * MIB)
    batch = batch_of(b"x" * (512 * KIB))
    for _ in range(300):
        append(log, batch)
        if (ticket := log.begin_sync(NOW_MS)) is not None:
            ticket.run()
            log.finish_sync(ticket)
    again = opened(tmp_path)
    assert again.end_offset == 300
    assert again.recovery.scanned_bytes <= CHECKPOINT_BYTES + 65 * MIB
    shutil.rmtree(tmp_path)


@pytest.mark.torture("recovery")
def test_ten_gigabytes_are_back_within_three_seconds(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """And a gigabyte that was never flushed within one."""
    disk = LocalDisk()
    batch = batch_of(b"x" * (16 * KIB))
    header = read_header(batch)
    for partition in range(10):
        log = Log.open(disk, f"{tmp_path}/{partition}", LogSettings(), now_ms=NOW_MS)
        while log.size_bytes < GIB:
            log.append(batch, header, leader_epoch=0, now_ms=NOW_MS)
            if log.end_offset % 1000 == 0:
                sync(log)
        sync(log)
    started = time.monotonic()
    logs = [Log.open(disk, f"{tmp_path}/{number}", LogSettings(), now_ms=NOW_MS) for number in range(10)]
    seconds = time.monotonic() - started
    scanned = sum(log.recovery.scanned_bytes for log in logs)
    assert sum(log.size_bytes for log in logs) >= 10 * GIB
    record_property("seconds for 10 GB", round(seconds, 2))
    record_property("bytes scanned", scanned)
    settings = LogSettings(segment_bytes=2**31 - 1, flush_policy="os")
    log = Log.open(disk, f"{tmp_path}/unflushed", settings, now_ms=NOW_MS)
    while log.size_bytes < GIB:
        log.append(batch, header, leader_epoch=0, now_ms=NOW_MS)
    started = time.monotonic()
    again = Log.open(disk, f"{tmp_path}/unflushed", settings, now_ms=NOW_MS)
    unflushed_seconds = time.monotonic() - started
    record_property("seconds for 1 GB never flushed", round(unflushed_seconds, 2))
    shutil.rmtree(tmp_path)
    assert again.recovery.scanned_bytes >= GIB
    assert seconds < 3
    assert unflushed_seconds < 1
