"""Deleting what is too old, too much or no longer wanted."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.core.retention import SegmentFacts, expired_count
from penstock.storage.log import Log
from penstock.units import DAY_MS, HOUR_MS, MINUTE_MS

DIRECTORY = "/data/p"


def opened(disk: PowerCutDisk, **settings: object) -> Log:
    return Log.open(disk, DIRECTORY, LogSettings(**settings), now_ms=NOW_MS)  # type: ignore[arg-type]


def log_files(disk: PowerCutDisk) -> list[str]:
    return [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")]


def delete(log: Log, now_ms: int) -> None:
    for _ in range(2):
        if (deletion := log.apply_retention(now_ms)) is not None:
            deletion.run()
        now_ms += log.settings.file_delete_delay_ms


def test_two_weeks_are_the_default() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for day in range(30):
        now_ms = NOW_MS + day * DAY_MS
        append(log, batch_of(b"%d" % day, timestamp_ms=now_ms), now_ms=now_ms)
    sync(log)
    delete(log, NOW_MS + 29 * DAY_MS)
    # Segments hold a week each: the one whose newest record is older than two weeks goes, and no other.
    assert log.start_offset == 14
    assert next(iter(contents(log))) == 14
    assert opened(disk).start_offset == 14


def test_an_idle_log_empties_itself_and_keeps_its_offsets() -> None:
    disk = PowerCutDisk()
    log = opened(disk, retention_ms=HOUR_MS, file_delete_delay_ms=0)
    append(log, batch_of(b"a", b"b"))
    sync(log)
    delete(log, NOW_MS + HOUR_MS)
    assert log.start_offset == 0, "not older than an hour yet"
    delete(log, NOW_MS + HOUR_MS + 1)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (2, 2, 0)
    again = opened(disk)
    assert (again.start_offset, again.end_offset) == (2, 2)
    assert append(again, batch_of(b"c")).base_offset == 2


def test_files_stay_for_readers_that_still_hold_them() -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=1024, retention_bytes=0, file_delete_delay_ms=MINUTE_MS)
    for _ in range(20):
        append(log, batch_of(b"x" * 100))
    count = len(log_files(disk))
    held = log.read(0, 100, upto=20, at_least_one=True)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert len(log_files(disk)) == count
    assert held.load()
    assert log.apply_retention(NOW_MS + MINUTE_MS - 1) is None
    deletion = log.apply_retention(NOW_MS + MINUTE_MS)
    assert deletion is not None
    deletion.run()
    assert len(log_files(disk)) == 1


def test_size_keeps_at_least_what_was_asked_for() -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=1024, retention_bytes=3000)
    for _ in range(40):
        append(log, batch_of(b"x" * 100))
    sync(log)
    delete(log, NOW_MS)
    assert 3000 <= log.size_bytes < 3000 + 1024
    assert list(contents(log)) == list(range(log.start_offset, 40))


def test_nothing_at_or_above_the_limit_goes() -> None:
    log = opened(PowerCutDisk(), segment_bytes=1024, retention_ms=1)
    for _ in range(20):
        append(log, batch_of(b"x" * 100))
    log.apply_retention(NOW_MS + DAY_MS, 9)
    assert 0 < log.start_offset <= 9


def test_compacted_topics_are_not_subject_to_retention() -> None:
    log = opened(PowerCutDisk(), cleanup_policy="compact", retention_ms=1, retention_bytes=1, segment_bytes=1024)
    for _ in range(20):
        append(log, batch_of(b"x" * 100))
    assert log.apply_retention(NOW_MS + DAY_MS) is None
    assert log.start_offset == 0


def test_deleted_records_are_gone_at_once_and_for_good() -> None:
    disk = PowerCutDisk()
    log = opened(disk, cleanup_policy="compact", segment_bytes=1024)
    for _ in range(20):
        append(log, batch_of(b"x" * 100))
    sync(log)
    assert log.delete_records(13) == 13
    with pytest.raises(PenstockError) as refusal:
        bytes_at(log, 12)
    assert refusal.value.problem is Problem.OFFSET_OUT_OF_RANGE
    assert next(iter(contents(log))) == 13
    disk.cut_power(Random(0))
    again = opened(disk, cleanup_policy="compact", segment_bytes=1024)
    assert again.start_offset == 13
    assert again.delete_records(2) == 13, "the start never goes back"
    delete(again, NOW_MS)
    assert int(log_files(disk)[0][:20]) <= 13
    assert len(log_files(disk)) < 5


@pytest.mark.parametrize("seed", range(8))
def test_a_producer_goes_on_although_a_power_cut_took_what_was_known_of_its_deleted_batches(seed: int) -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=1024, retention_bytes=1024, file_delete_delay_ms=0)

    def produce(log: Log, sequence: int, producer_id: int = 1) -> None:
        batch = batch_of(b"x" * 100, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        append(log, batch)

    produce(log, 0)
    log.checkpoint()
    for sequence in range(1, 4):
        produce(log, sequence)
    for sequence in range(20):
        produce(log, sequence, producer_id=2)
    sync(log)
    delete(log, NOW_MS)
    assert log.start_offset > 4
    disk.cut_power(Random(seed))
    again = opened(disk)
    produce(again, 4)
    produce(again, 20, producer_id=2)


def test_a_start_that_is_written_down_moves_on_the_loop_and_only_forward() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    for epoch in range(5):
        append(log, batch_of(b"x"), leader_epoch=epoch)
    sync(log)
    log.write_start(3)
    assert (log.start_offset, list(contents(log))) == (0, [0, 1, 2, 3, 4])
    # One that was asked for later came first.
    log.write_start(2)
    assert log.move_start(3) == 3
    assert log.move_start(2) == 3
    assert list(contents(log)) == [3, 4]
    assert log.end_offset_for_epoch(3).end_offset == 4
    disk.cut_power(Random(0))
    assert opened(disk).start_offset == 3


@pytest.mark.parametrize("offset", [-1, 3])
def test_records_that_do_not_exist_cannot_be_deleted(offset: int) -> None:
    log = opened(PowerCutDisk())
    append(log, batch_of(b"a", b"b"))
    with pytest.raises(PenstockError) as refusal:
        log.delete_records(offset)
    assert refusal.value.problem is Problem.OFFSET_OUT_OF_RANGE


def test_an_old_segment_is_closed_although_nothing_is_appended() -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_ms=HOUR_MS)
    append(log, batch_of(b"a"))
    log.roll_if_due(NOW_MS + HOUR_MS - 1)
    assert len(log_files(disk)) == 1
    log.roll_if_due(NOW_MS + HOUR_MS)
    assert len(log_files(disk)) == 2
    log.roll_if_due(NOW_MS + 2 * HOUR_MS)
    assert len(log_files(disk)) == 2, "an empty one has nothing that could be too old"


FACTS = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 100), st.integers(0, 100)), max_size=8).map(
    lambda rows: [
        SegmentFacts(sum(row[0] for row in rows[: place + 1]), row[1], row[2]) for place, row in enumerate(rows)
    ]
)


@given(FACTS, st.integers(0, 800), st.integers(0, 800), st.integers(-1, 100), st.integers(-1, 400), st.integers(0, 50))
def test_retention_never_takes_too_much(
    segments: list[SegmentFacts], start: int, limit: int, retention_ms: int, retention_bytes: int, active_bytes: int
) -> None:
    now_ms = 100
    count = expired_count(
        segments,
        start_offset=start,
        limit_offset=limit,
        now_ms=now_ms,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        active_bytes=active_bytes,
    )
    for place, segment in enumerate(segments[:count]):
        assert segment.next_offset <= limit
        left = active_bytes + sum(later.size_bytes for later in segments[place + 1 :])
        assert (
            segment.next_offset <= start
            or (retention_ms >= 0 and now_ms - segment.newest_ms > retention_ms)
            or 0 <= retention_bytes <= left
        )
    if count < len(segments) and segments[count].next_offset <= limit:
        kept = segments[count]
        assert kept.next_offset > start
        assert retention_ms < 0 or now_ms - kept.newest_ms <= retention_ms
