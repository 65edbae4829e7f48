"""Appending, reading, syncing and opening again."""

from __future__ import annotations

import errno

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents, headers_in, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log
from penstock.wire.batch import read_header

DIRECTORY = "/data/p"


def opened(disk: PowerCutDisk, **settings: object) -> Log:
    return Log.open(disk, DIRECTORY, LogSettings(**settings), now_ms=NOW_MS)  # type: ignore[arg-type]


def test_batches_get_consecutive_offsets_and_come_back_as_sent() -> None:
    log = opened(PowerCutDisk())
    sent = [batch_of(b"a", b"b"), batch_of(b"c"), batch_of(b"d", b"e", b"f")]
    answers = [append(log, batch, leader_epoch=3) for batch in sent]
    assert [(answer.base_offset, answer.next_offset) for answer in answers] == [(0, 2), (2, 3), (3, 6)]
    assert contents(log) == {answer.base_offset: bytes(batch) for answer, batch in zip(answers, sent, strict=True)}
    assert [header.leader_epoch for header in headers_in(bytes_at(log, 0))] == [3, 3, 3]


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_read_begins_at_the_batch_that_holds_the_offset(is_cold: bool, reopened: bool) -> None:
    disk = PowerCutDisk()
    log = opened(disk, index_interval_bytes=200)
    for number in range(50):
        append(log, batch_of(*[b"%d" % number] * 3))
    if reopened:
        log.close()
        log = opened(disk, index_interval_bytes=200)
    disk.is_cold = is_cold
    for offset in range(150):
        assert headers_in(bytes_at(log, offset))[0].base_offset == offset - offset % 3


def test_a_read_stops_at_the_limits() -> None:
    log = opened(PowerCutDisk())
    for number in range(10):
        append(log, batch_of(b"%d" % number, b"x"))
    size = len(batch_of(b"0", b"x"))
    assert len(bytes_at(log, 0, upto=6)) == 3 * size
    # A batch across the limit is not shown.
    assert len(bytes_at(log, 0, upto=7)) == 3 * size
    assert len(bytes_at(log, 2, max_bytes=2 * size)) == 2 * size
    assert len(bytes_at(log, 2, max_bytes=3 * size - 1)) == 2 * size
    assert len(bytes_at(log, 2, max_bytes=1)) == size
    assert log.read(2, 1, upto=20, at_least_one=False).length == 0
    assert log.read(20, 100, upto=20, at_least_one=True).length == 0
    assert log.read(6, 100, upto=6, at_least_one=True).length == 0


@pytest.mark.parametrize("offset", [-1, 3])
def test_offsets_outside_the_log_are_refused(offset: int) -> None:
    log = opened(PowerCutDisk())
    append(log, batch_of(b"a", b"b"))
    with pytest.raises(PenstockError) as refusal:
        log.read(offset, 100, upto=2, at_least_one=True)
    assert refusal.value.problem is Problem.OFFSET_OUT_OF_RANGE


def test_segments_roll_by_size_and_age_and_reads_cross_them() -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=1024, segment_ms=1000)
    for number in range(20):
        append(log, batch_of(b"%d" % number * 100))
    append(log, batch_of(b"late"), now_ms=NOW_MS + 1000)
    assert len([name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")]) == 6
    assert list(contents(log)) == list(range(21))


def test_a_new_log_costs_no_file_until_something_is_appended() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    assert log.begin_sync() is None
    log.close()
    assert disk.list_directory(DIRECTORY) == []


def test_log_append_time_is_stamped_and_the_checksum_is_right() -> None:
    log = opened(PowerCutDisk(), message_timestamp_type="LogAppendTime")
    answer = append(log, batch_of(b"a", timestamp_ms=5), now_ms=NOW_MS + 7)
    assert answer.log_append_time_ms == NOW_MS + 7
    (header,) = headers_in(bytes_at(log, 0))
    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS + 7


def test_synced_offset_moves_when_the_ticket_is_finished() -> None:
    log = opened(PowerCutDisk())
    append(log, batch_of(b"a"))
    ticket = log.begin_sync()
    assert ticket is not None
    append(log, batch_of(b"b"))
    assert log.begin_sync() is None, "one at a time"
    ticket.run()
    assert log.synced_offset == 0
    log.finish_sync(ticket)
    assert log.synced_offset == 1
    sync(log)
    assert log.synced_offset == 2
    assert log.begin_sync() is None


def test_a_clean_restart_scans_nothing_and_keeps_everything() -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=1024)
    for number in range(20):
        append(log, batch_of(b"%d" % number * 100), leader_epoch=number // 10)
    before = contents(log)
    log.close()
    again = opened(disk, segment_bytes=1024)
    assert again.recovery.scanned_bytes == 0
    assert not again.recovery.noteworthy
    assert contents(again) == before
    assert (again.end_offset, again.synced_offset, again.latest_epoch) == (20, 20, 1)
    assert again.end_offset_for_epoch(0) == (0, 10)
    assert append(again, batch_of(b"next"), leader_epoch=1).base_offset == 20


def test_a_closed_log_takes_nothing_more() -> None:
    log = opened(PowerCutDisk())
    append(log, batch_of(b"a"))
    log.close()
    with pytest.raises(PenstockError) as refusal:
        append(log, batch_of(b"b"))
    assert refusal.value.problem is Problem.STORAGE_FAILED


def test_an_old_leader_epoch_is_fenced() -> None:
    log = opened(PowerCutDisk())
    append(log, batch_of(b"a"), leader_epoch=4)
    with pytest.raises(PenstockError) as refusal:
        append(log, batch_of(b"b"), leader_epoch=3)
    assert refusal.value.problem is Problem.FENCED_LEADER_EPOCH
    assert log.end_offset == 1


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    append(log, batch_of(b"other"))
    for number in range(6):
        append(log, batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=number))
    repeated = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=3)
    answer = append(log, repeated)
    assert (answer.base_offset, answer.next_offset, answer.duplicate) == (4, 5, True)
    assert log.end_offset == 7
    again = opened(disk)
    assert append(again, repeated).duplicate
    with pytest.raises(PenstockError) as refusal:
        append(again, batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=9))
    assert refusal.value.problem is Problem.OUT_OF_ORDER_SEQUENCE
    assert read_header(repeated).base_offset == 0, "a duplicate is not stamped"


@pytest.mark.parametrize("operation", ["create", "write"])
@pytest.mark.parametrize("known", [True, False])
def test_no_batch_of_a_producer_overtakes_one_that_the_disk_had_no_room_for(operation: str, known: bool) -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=1024)
    first = 1 if known else 0
    batches = [
        batch_of(b"%d" % number * 900, producer_id=7, producer_epoch=0, base_sequence=number) for number in range(4)
    ]
    for batch in batches[:first]:
        append(log, batch)
    disk.fail_next(operation, errno.ENOSPC, path_part=".log")
    with pytest.raises(PenstockError, match="disk is full"):
        append(log, batches[first])
    for batch in batches[first + 1 :]:
        with pytest.raises(PenstockError) as refusal:
            append(log, batch)
        assert refusal.value.problem is Problem.OUT_OF_ORDER_SEQUENCE
    assert [append(log, batch).base_offset for batch in batches[first:]] == list(range(first, 4))
