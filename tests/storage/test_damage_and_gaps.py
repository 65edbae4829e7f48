"""What is missing because a leader compacted it away, and what a disk has lost: one is never taken for the other."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, batch_of, bytes_at, contents, headers_in, sync
from tests.storage.damaged_log import problem_at
from tests.storage.test_compaction import compact
from tests.storage.test_replica_append import batches, take

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.holes import first_hole
from penstock.storage.log import Log
from penstock.wire.batch import stamp
from penstock.wire.records import Record, build_batch

SEGMENT = f"/log/{0:020d}"


def opened(disk: PowerCutDisk, cleanup_policy: str = "compact", **settings: object) -> Log:
    return Log.open(disk, "/log", LogSettings(cleanup_policy=cleanup_policy, **settings), now_ms=NOW_MS)  # type: ignore[arg-type]


@pytest.mark.parametrize("lost_bytes", [7, 8, 12, 16])
def test_a_torn_batch_does_not_condemn_one_behind_a_gap(lost_bytes: int) -> None:
    """Its base offset jumps, and nothing but the one behind it could say that this is not right."""
    disk = PowerCutDisk()
    log = opened(disk)
    take(log, batches(*[(offset, 3, 1) for offset in range(257)], (300, 4, 1)))
    sync(log)
    position = log.size_bytes
    take(log, batches((301, 4, 1)))
    disk.damage(SEGMENT + ".log", position, bytes(lost_bytes))
    again = opened(disk)
    assert (again.end_offset, again.recovery.damage) == (301, [])
    assert list(contents(again)) == [*range(257), 300]


@pytest.mark.parametrize("place", [6, 14])
def test_a_flipped_bit_that_looks_like_a_gap_or_a_new_epoch_is_told_by_the_next_batch(place: int) -> None:
    """In the base offset or in the leader epoch, neither of which the batch's own checksum covers."""
    disk = PowerCutDisk()
    log = opened(disk)
    take(log, batches((0, 3, 1), (7, 3, 1)))
    position = log.size_bytes
    take(log, batches((9, 3, 1), (12, 3, 1)))
    sync(log)
    disk.damage(SEGMENT + ".log", position + place, bytes([1]))
    again = opened(disk)
    assert [(damage.first_offset, damage.next_offset) for damage in again.recovery.damage] == [(8, 12)]
    assert list(contents(again, 12)) == [12]


@pytest.mark.parametrize("max_bytes", [0, 1_000, 20_000, 1_000_000])
def test_a_large_batch_with_a_flipped_base_offset_is_not_served_whatever_the_limit(max_bytes: int) -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    positions = []
    for offset, size in ((0, 3), (5, 3), (6, 30_000), (7, 10), (9, 10), (10, 5_000), (11, 10)):
        positions.append(log.size_bytes)
        batch = bytearray(batch_of(b"v" * size))
        stamp(batch, offset, 0)
        take(log, batch)
    log.close()
    again = opened(disk)
    disk.damage(SEGMENT + ".log", positions[2] + 7, bytes([7]))
    with pytest.raises(PenstockError) as refused:
        bytes_at(again, 6, max_bytes=max_bytes)
    assert refused.value.problem is Problem.CORRUPT_RECORDS


@pytest.mark.parametrize("is_first", [True, False])
def test_who_reads_on_from_a_gap_before_damage_is_told_of_it_every_time(is_first: bool) -> None:
    """Also when somebody has found it before, who began right there; `is_first`: in a segment."""
    disk = PowerCutDisk()
    size = len(batches((0, 1, 1)))
    settings: dict[str, Any] = {"segment_bytes": 2 * size + 10 if is_first else 10_000, "index_interval_bytes": 1}
    log = opened(disk, **settings)
    for offset in (0, 1, 5, 6, 7):
        take(log, batches((offset, 1, 1)))
    log.close()
    (segment,) = [each for each in log.segments if each.base_offset <= 5 < each.next_offset]
    disk.damage(segment.path + ".log", (0 if is_first else 2 * size) + size - 2, b"\xff\xff")
    again = opened(disk, **settings)
    for offset in (5, 2, 2, 3):
        assert problem_at(again, offset) is Problem.CORRUPT_RECORDS
    assert bytes_at(again, 2, upto=5) == b"", "nothing of what may be read is missing"
    assert headers_in(bytes_at(again, 6))[0].base_offset == 6


def test_a_gap_before_damage_that_may_not_be_read_yet_is_no_damage() -> None:
    disk = PowerCutDisk()
    settings: dict[str, Any] = {"segment_bytes": 3 * len(batches((0, 1, 1))) + 10}
    log = opened(disk, **settings)
    take(log, batches((0, 1, 1), (1, 1, 1), (2, 1, 1)))
    take(log, batches((10, 1, 1)))
    log.truncate_to(5)
    take(log, batches((6, 2, 1)))
    log.close()
    disk.remove(log.segments[-1].path + ".log")
    again = opened(disk, **settings)
    for offset in (3, 4):
        assert bytes_at(again, offset, upto=5) == b""
        assert problem_at(again, offset) is Problem.CORRUPT_RECORDS


def keyed(*offsets: int) -> bytearray:
    """Two keys, in turns."""
    data = bytearray()
    for offset in offsets:
        batch = bytearray(build_batch([Record(0, NOW_MS, b"k%d" % (offset % 2), b"v" * 60)]))
        stamp(batch, offset, 1)
        data += batch
    return data


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_empty_segment_behind_a_gap_that_goes_at_a_start_leaves_no_damage(is_clean: bool) -> None:
    """Cut where its leader parts from it, in a gap, the log goes on in a new segment, for which there is no room."""
    disk = PowerCutDisk()
    settings: dict[str, Any] = {"segment_bytes": 250, "min_cleanable_dirty_ratio": 0.0}
    log = opened(disk, **settings)
    for offset in (0, 1, 2, 3, 4, 5, 10, 11):
        take(log, keyed(offset))
    sync(log)
    log.truncate_to(9)
    disk.fail_next("write", errno.ENOSPC, path_part=f"{9:020d}.log")
    with pytest.raises(PenstockError):
        take(log, keyed(9))
    assert (log.segments[-1].base_offset, log.segments[-1].size) == (9, 0)
    assert compact(log)
    if is_clean:
        log.close()
    again = opened(disk, **settings)
    assert (again.recovery.damage, again.end_offset) == ([], 9)
    assert bytes_at(again, 6) == b""


def test_known_damage_does_not_grow_over_the_gap_in_which_the_log_was_cut() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    take(log, batches((0, 1, 1), (3, 1, 1)))
    position = log.size_bytes
    take(log, batches((4, 1, 1), (5, 1, 1), (9, 1, 1)))
    log.close()
    disk.damage(SEGMENT + ".log", position + 65, b"\xff\xff")
    log = opened(disk)
    assert problem_at(log, 4) is Problem.CORRUPT_RECORDS
    log.truncate_to(7)
    log.close()
    for _ in range(2):
        log = opened(disk)
        assert (log.end_offset, [damage[:2] for segment in log.segments for damage in segment.damage]) == (7, [(4, 5)])
        log.close()


# Each segment takes three batches, and all but the first begin behind a gap.
SEGMENTS = [(0, 1, 2), (10, 11, 12), (20, 21, 22), (30, 31, 32)]
OFFSETS = [offset for offsets in SEGMENTS for offset in offsets]


def follower(disk: PowerCutDisk, *, checkpoint_after: int = 0) -> Log:
    """Nothing is synced but what is in that many segments."""
    size = len(batches((0, 1, 1)))
    log = opened(disk, segment_bytes=3 * size + 10)
    for place, offsets in enumerate(SEGMENTS):
        take(log, batches(*[(offset, 1, 1) for offset in offsets]))
        if place + 1 == checkpoint_after:
            log.checkpoint()
    assert len(log.segments) == len(SEGMENTS)
    return log


def every_offset_is_read(log: Log) -> None:
    left = [offset for offset in OFFSETS if offset < log.end_offset]
    for offset in range(left[-1] + 1):
        first = headers_in(bytes_at(log, offset, max_bytes=1))[0].base_offset
        assert first == min(each for each in left if each >= offset)


@pytest.mark.parametrize("checkpoint_after", [0, 1, 2])
def test_gaps_between_segments_are_no_damage_after_a_kill(checkpoint_after: int) -> None:
    disk = PowerCutDisk()
    log = follower(disk, checkpoint_after=checkpoint_after)
    every_offset_is_read(log)
    again = opened(disk)
    assert (again.end_offset, again.recovery.damage) == (33, [])
    every_offset_is_read(again)
    again.close()
    for name in disk.list_directory("/log"):
        if name.endswith("index"):
            disk.remove(f"/log/{name}")
    every_offset_is_read(opened(disk))


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("checkpoint_after", [0, 1])
def test_a_segment_that_a_power_cut_took_is_not_taken_for_a_gap(checkpoint_after: int, is_empty: bool) -> None:
    disk = PowerCutDisk()
    log = follower(disk, checkpoint_after=checkpoint_after)
    path = log.segments[2].path + ".log"
    if is_empty:
        disk.replace(path, b"")
    else:
        disk.remove(path)
    again = opened(disk)
    assert again.end_offset == 33
    assert [(damage.first_offset, damage.next_offset) for damage in again.recovery.damage] == [(13, 23)]
    for offset in range(13, 23):
        with pytest.raises(PenstockError) as refusal:
            bytes_at(again, offset)
        assert refusal.value.problem is Problem.CORRUPT_RECORDS
    assert list(contents(again, 23)) == [30, 31, 32]
    again.truncate_to(13)
    take(again, batches((20, 1, 1)))
    assert list(contents(again)) == list(contents(opened(disk))) == [0, 1, 2, 10, 11, 12, 20]


@pytest.mark.parametrize("offset", [1, 3, 5, 10, 11, 15, 20, 25, 33])
def test_truncation_at_gaps_between_segments_leaves_a_sound_log(offset: int) -> None:
    disk = PowerCutDisk()
    log = follower(disk)
    log.truncate_to(offset)
    assert log.end_offset == offset, "what is below it may have been committed, and is not given again"
    left = [each for each in OFFSETS if each < offset]
    assert (opened(disk).end_offset, opened(disk).recovery.damage) == (offset, [])
    take(log, batches((offset + 3, 2, 1)))
    for again in (log, opened(disk)):
        assert (list(contents(again)), again.recovery.damage) == ([*left, offset + 3], [])
        assert again.epochs.epoch_of(offset + 3) == 2


def test_a_gap_that_no_index_can_span_is_known_after_a_kill() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    take(log, batches((0, 1, 1)))
    take(log, batches((2**33, 1, 1)))
    for again in (log, opened(disk)):
        assert (list(contents(again)), again.recovery.damage) == ([0, 2**33], [])


def test_what_follows_on_damage_behind_a_gap_is_read() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    take(log, batches((0, 1, 1), (1, 1, 1)))
    log.checkpoint()
    disk.damage(SEGMENT + ".log", log.size_bytes - 1, b"\x99")
    again = opened(disk)
    with pytest.raises(PenstockError):
        bytes_at(again, 1)
    take(again, batches((7, 1, 1), (8, 1, 1)))
    sync(again)
    for each in (again, opened(disk)):
        for offset in range(2, 8):
            assert headers_in(bytes_at(each, offset))[0].base_offset == 7


def test_a_segment_that_is_lost_behind_a_gap_at_which_the_log_was_truncated_is_not_passed_over() -> None:
    disk = PowerCutDisk()
    log = follower(disk)
    log.truncate_to(5)
    take(log, batches((6, 2, 1)))
    lost = log.segments[-1].path + ".log"
    log.roll(NOW_MS)
    take(log, batches((9, 2, 1)))
    disk.remove(lost)
    again = opened(disk)
    assert (again.end_offset, first_hole(again)) == (10, 5)
    for offset in range(3, 7):
        with pytest.raises(PenstockError):
            bytes_at(again, offset)
    assert list(contents(again, 7)) == [9]


def test_a_first_segment_that_a_power_cut_took_is_said() -> None:
    disk = PowerCutDisk()
    disk.remove(follower(disk).segments[0].path + ".log")
    again = opened(disk)
    assert first_hole(again) == 0
    again.truncate_to(0)
    assert (again.end_offset, again.segments) == (0, [])


@pytest.mark.parametrize("written_under", ["compact", "delete"])
@pytest.mark.parametrize("segment_bytes", [100, 1024, 10_000])
@pytest.mark.parametrize("cut", [None, *range(4)])
def test_gaps_are_expected_of_a_log_whose_topic_is_not_compacted_any_more(
    written_under: str, segment_bytes: int, cut: int | None
) -> None:
    """`delete`: it begins to copy what its leader has of earlier. Each batch is behind a gap, the last one too."""
    disk = PowerCutDisk()
    log = opened(disk, written_under, segment_bytes=segment_bytes)
    offsets = [1 + place * 3 for place in range(30)]
    for some in (offsets[:10], offsets[10:29], offsets[29:]):
        take(log, batches(*[(offset, 1, 1) for offset in some]))
        sync(log)
    if cut is not None:
        disk.cut_power(Random(cut))
    again = opened(disk, "delete", segment_bytes=segment_bytes)
    assert (again.end_offset, again.recovery.damage, again.recovery.torn_bytes) == (log.end_offset, [], 0)
    assert list(contents(again)) == offsets


@pytest.mark.parametrize("cut", range(8))
def test_a_word_of_gaps_that_a_killed_process_left_is_not_relied_on_before_it_is_there_for_good(cut: int) -> None:
    """Nothing came behind it, so nothing else has the next process sync it."""
    disk = PowerCutDisk()
    log = opened(disk, "delete")
    take(log, batches((0, 1, 1), (1, 1, 1)))
    log.checkpoint()
    disk.fail_next("write", errno.ENOSPC, path_part=".log")
    with pytest.raises(PenstockError):
        take(log, batches((5, 1, 1)))
    log = opened(disk, "delete")
    take(log, batches((5, 1, 1)))
    sync(log)
    disk.cut_power(Random(cut))
    assert list(contents(opened(disk, "delete"))) == [0, 1, 5]


@pytest.mark.parametrize("offset", [256, 2**20])
def test_a_jump_before_the_last_batch_of_a_log_without_gaps_is_a_torn_tail_as_before(offset: int) -> None:
    disk = PowerCutDisk()
    log = opened(disk, "delete")
    take(log, batches((0, 1, 1), (1, 1, 1)))
    position = log.size_bytes
    take(log, batches((2, 1, 1)))
    disk.damage(SEGMENT + ".log", position, offset.to_bytes(8, "big"))
    assert opened(disk, "delete").end_offset == 2


@pytest.mark.parametrize("offset", [2**31 + 2, 2**40])
def test_a_jump_before_the_last_batch_that_no_segment_can_span_is_a_torn_tail(offset: int) -> None:
    disk = PowerCutDisk()
    log = opened(disk, "compact")
    take(log, batches((0, 1, 1), (1, 1, 1)))
    position = log.size_bytes
    take(log, batches((2, 1, 1)))
    disk.damage(SEGMENT + ".log", position, offset.to_bytes(8, "big"))
    assert opened(disk, "compact").end_offset == 2
