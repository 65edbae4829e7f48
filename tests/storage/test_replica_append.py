"""Batches as another replica has them: kept as they are, found again, and checked before they are believed."""

from __future__ import annotations

import pytest
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, batch_of, bytes_at, contents, sync

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk
from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log
from penstock.storage.replica_append import append_replicated
from penstock.storage.restart import restart_at
from penstock.wire.batch import stamp
from penstock.wire.received_batches import received_batches


def log_on(disk: Disk, **settings: object) -> Log:
    return Log.open(disk, "/log", LogSettings(**settings), now_ms=NOW_MS)  # type: ignore[arg-type]


def batches(*rows: tuple[int, int, int]) -> bytearray:
    """Base offset, epoch, records."""
    data = bytearray()
    for base_offset, epoch, records in rows:
        batch = bytearray(batch_of(*[b"%d" % base_offset] * records))
        stamp(batch, base_offset, epoch)
        data += batch
    return data


def take(log: Log, data: bytearray) -> None:
    append_replicated(log, memoryview(data), received_batches(memoryview(data)), NOW_MS)


def test_batches_keep_their_bytes_and_begin_their_epochs() -> None:
    log = log_on(PowerCutDisk())
    data = batches((0, 1, 2), (2, 1, 1), (3, 4, 2))
    take(log, data)
    assert b"".join(contents(log).values()) == bytes(data)
    assert (log.end_offset, log.latest_epoch) == (5, 4)
    assert [log.epochs.epoch_of(offset) for offset in range(5)] == [1, 1, 1, 4, 4]
    assert log.end_offset_for_epoch(1).end_offset == 3


def test_they_fill_segments_as_a_leader_does() -> None:
    log = log_on(PowerCutDisk(), segment_bytes=1024)
    take(log, batches(*[(offset, 0, 1) for offset in range(40)]))
    assert len(log.segments) > 2
    assert all(segment.size <= 1024 for segment in log.segments)
    assert list(contents(log)) == list(range(40))


def test_offsets_that_the_leader_compacted_away_are_missing_here_too_also_after_a_kill() -> None:
    disk = PowerCutDisk()
    log = log_on(disk, cleanup_policy="compact")
    take(log, batches((0, 1, 1), (4, 1, 2)))
    take(log, batches((20, 1, 1), (25, 2, 1)))
    for again in (log, log_on(disk, cleanup_policy="compact")):
        assert list(contents(again)) == [0, 4, 20, 25]
        assert bytes_at(again, 10, max_bytes=1)[:8] == (20).to_bytes(8, "big")
        assert again.end_offset == 26


def test_an_epoch_in_which_this_broker_led_and_wrote_nothing_leaves_no_trace() -> None:
    log = log_on(PowerCutDisk())
    take(log, batches((0, 1, 1)))
    log.begin_epoch(5)
    take(log, batches((1, 3, 1)))
    assert (log.latest_epoch, log.epochs.epoch_of(1)) == (3, 3)


@pytest.mark.parametrize("first", [1, 4])
def test_records_of_an_older_epoch_than_one_in_which_it_led_and_wrote_nothing_survive_a_kill(first: int) -> None:
    """Its checkpoint knew of the empty epoch. `first`: perhaps behind a gap that the leader's compaction left."""
    disk = PowerCutDisk()
    log = log_on(disk, cleanup_policy="compact")
    take(log, batches((0, 5, 1)))
    log.begin_epoch(6)
    log.checkpoint()
    take(log, batches((first, 5, 1), (first + 1, 5, 1), (first + 2, 7, 1)))
    sync(log)
    for again in (log, log_on(disk, cleanup_policy="compact")):
        assert list(contents(again)) == [0, first, first + 1, first + 2]
        assert not again.recovery.damage
        assert again.epochs.starts() == [(5, 0), (7, first + 2)]


def test_an_epoch_that_this_broker_began_is_over_for_a_log_that_is_opened_again() -> None:
    """It leads in an epoch once, so nothing is written in that one any more; an older one may still be taken over."""
    disk = PowerCutDisk()
    log = log_on(disk)
    take(log, batches((0, 5, 1)))
    log.begin_epoch(6)
    log.close()
    again = log_on(disk)
    assert again.latest_epoch == 5
    take(again, batches((1, 5, 1)))
    assert again.epochs.starts() == [(5, 0)]


def test_what_was_cut_off_is_left_out_and_what_is_not_sound_is_refused() -> None:
    data = batches((0, 1, 1), (1, 1, 1))
    whole = len(data)
    assert [header.base_offset for header in received_batches(memoryview(data)[: whole - 1])] == [0]
    assert received_batches(memoryview(data)[:10]) == []
    for place in (whole - 1, 16):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(PenstockError) as raised:
            received_batches(memoryview(damaged))
        assert raised.value.problem is Problem.CORRUPT_RECORDS
    with pytest.raises(PenstockError, match="cannot follow"):
        received_batches(memoryview(batches((5, 1, 1), (2, 1, 1))))


def test_producers_are_known_to_a_follower_that_becomes_the_leader() -> None:
    log = log_on(PowerCutDisk())
    batch = bytearray(batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    stamp(batch, 0, 0)
    take(log, batch)
    again = batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    (header,) = received_batches(memoryview(batch))
    assert log.append(again, header, leader_epoch=1, now_ms=NOW_MS).duplicate


@pytest.mark.parametrize("offset", [0, 4, 9, 100])
def test_a_log_that_begins_anew_has_nothing_of_before(offset: int) -> None:
    disk = PowerCutDisk()
    log = log_on(disk, segment_bytes=1024)
    take(log, batches(*[(number, 3, 1) for number in range(30)]))
    sync(log)
    log.delete_records(10)
    restart_at(log, offset)
    assert (log.start_offset, log.end_offset, log.latest_epoch, log.size_bytes) == (offset, offset, None, 0)
    take(log, batches((offset, 1, 1)))
    sync(log)
    again = log_on(disk, segment_bytes=1024)
    assert list(contents(again)) == [offset]
    assert again.epochs.epoch_of(offset) == 1
    again.delete_records(offset + 1)
    assert log_on(disk, segment_bytes=1024).start_offset == offset + 1


@pytest.mark.parametrize(
    ("operation", "name"), [("remove", "/start-offset"), ("remove", "/restart"), ("rename", "/checkpoint")]
)
def test_a_log_that_was_interrupted_on_its_way_back_is_there_when_it_is_opened(operation: str, name: str) -> None:
    disk = FaultyDisk(PowerCutDisk())
    log = log_on(disk)
    take(log, batches(*[(number, 3, 1) for number in range(10)]))
    sync(log)
    log.delete_records(2)
    disk.fail(operation, path_part=name)
    with pytest.raises(PenstockError):
        restart_at(log, 4)
    disk.heal()
    for _ in range(2):
        log = log_on(disk)
        assert (log.start_offset, log.end_offset, contents(log)) == (4, 4, {})
    take(log, batches((4, 3, 1)))
    sync(log)
    assert list(contents(log_on(disk))) == [4]
