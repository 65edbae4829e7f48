"""Finding records by time."""

from __future__ import annotations

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk
from penstock.storage.log import Log
from penstock.wire.records import Record, build_batch

DIRECTORY = "/data/p"


def opened(disk: Disk, **settings: object) -> Log:
    chosen = LogSettings(segment_bytes=1024, index_interval_bytes=200, **settings)  # type: ignore[arg-type]
    return Log.open(disk, DIRECTORY, chosen, now_ms=NOW_MS)


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), max_size=25),
    asked=st.integers(0, 62),
    start=st.integers(0, 40),
    reopened=st.booleans(),
    compression=st.integers(0, 4),
)
def test_the_first_record_not_older_is_found(
    batches: list[list[int]], asked: int, start: int, reopened: bool, compression: int
) -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for times in batches:
        records = [Record(place, time, None, b"v" * 30) for place, time in enumerate(times)]
        append(log, memoryview(build_batch(records, compression=compression)))
    start = min(start, log.end_offset)
    log.delete_records(start)
    if reopened:
        log.close()
        log = opened(disk)
    alive = [(offset, time) for offset, time in enumerate(time for times in batches for time in times)][start:]
    found = log.offset_for_timestamp(asked)
    assert (found and found[:2]) == next(((offset, time) for offset, time in alive if time >= asked), None)
    newest = log.max_timestamp()
    assert (newest and newest[:2]) == min(alive, key=lambda row: (-row[1], row[0]), default=None)


def test_with_log_append_time_all_records_of_a_batch_have_the_brokers_time() -> None:
    log = opened(PowerCutDisk(), message_timestamp_type="LogAppendTime")
    for number in range(5):
        append(log, batch_of(b"a", b"b", timestamp_ms=1), now_ms=NOW_MS + number, leader_epoch=number)
    assert log.offset_for_timestamp(NOW_MS + 3) == (6, NOW_MS + 3, 3)
    assert log.max_timestamp() == (8, NOW_MS + 4, 4)
    assert log.offset_for_timestamp(NOW_MS + 5) is None


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_contents_that_cannot_be_unpacked_answer_with_their_batch(compression: int) -> None:
    log = opened(PowerCutDisk())
    batch = bytearray(batch_of(b"not compressed at all"))
    batch[22] |= compression
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    append(log, memoryview(batch))
    assert log.offset_for_timestamp(NOW_MS) == (0, NOW_MS, 0)


def test_an_empty_log_has_no_times() -> None:
    log = opened(PowerCutDisk())
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None


def test_the_newest_is_found_without_a_look_at_what_is_older() -> None:
    disk = FaultyDisk(PowerCutDisk())
    log = opened(disk)
    append(log, batch_of(b"deleted", timestamp_ms=NOW_MS + 9))
    for number in range(200):
        append(log, batch_of(b"v" * 100, timestamp_ms=NOW_MS - 200 + number))
    log.delete_records(1)
    before = disk.count("read", ".log")
    assert log.max_timestamp() == (200, NOW_MS - 1, 0)
    assert len(log.segments) > 20
    assert disk.count("read", ".log") - before < 30
