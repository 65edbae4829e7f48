"""The background scrub: finds what rotted, in small steps, and disturbs nobody."""

from __future__ import annotations

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log
from penstock.storage.scrub import Found, Scrub

DIRECTORY = "/data/p"


def filled(disk: PowerCutDisk, **settings: object) -> Log:
    """Several closed segments of about ten batches."""
    log = Log.open(disk, DIRECTORY, LogSettings(segment_bytes=3000, **settings), now_ms=NOW_MS)  # type: ignore[arg-type]
    for number in range(60):
        append(log, batch_of(b"%02d" % number * 100, b"second"))
    sync(log)
    return log


def scrubbed(log: Log, step_bytes: int = 700) -> list[Found]:
    scrub = Scrub(log.segments[:-1])
    found = []
    while not scrub.is_done:
        found += scrub.step(step_bytes).found
    return found


def batch_positions(log: Log, place: int) -> list[tuple[int, int]]:
    """Base offset and position of each batch of a segment."""
    return [(header.base_offset, position) for position, header in log.segments[place].batches(0)]


def test_a_sound_log_is_walked_once_in_small_steps() -> None:
    log = filled(PowerCutDisk())
    scrub = Scrub(log.segments[:-1])
    steps = []
    while not scrub.is_done:
        steps.append(scrub.step(700))
    assert sum(step.bytes_checked for step in steps) == sum(segment.size for segment in log.segments[:-1])
    # A step may go over its measure by less than a batch.
    assert max(step.bytes_checked for step in steps) < 700 + len(batch_of(b"00" * 100, b"second"))
    assert not any(step.found for step in steps)


@pytest.mark.parametrize("step_bytes", [1, 700, 10**6])
@pytest.mark.parametrize("place_in_batch", [3, 9, 14, 30, 70])
def test_a_flipped_bit_is_found_and_only_its_range_is_refused(step_bytes: int, place_in_batch: int) -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    segment = log.segments[1]
    offset, position = batch_positions(log, 1)[4]
    before = contents(log)
    at = position + place_in_batch
    disk.damage(segment.path + ".log", at, bytes([disk.open(segment.path + ".log").read(at, 1)[0] ^ 4]))
    (found,) = scrubbed(log, step_bytes)
    assert found.path == segment.path
    assert found.damage.first_offset <= offset < found.damage.next_offset
    assert found.damage.next_offset - found.damage.first_offset <= 4
    for bad in range(found.damage.first_offset, found.damage.next_offset):
        with pytest.raises(PenstockError) as refusal:
            bytes_at(log, bad)
        assert refusal.value.problem is Problem.CORRUPT_RECORDS
    assert contents(log, found.damage.next_offset) == {
        base: batch for base, batch in before.items() if base >= found.damage.next_offset
    }


def test_what_is_known_is_not_told_again() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    for place in (0, 2):
        _, position = batch_positions(log, place)[2]
        disk.damage(log.segments[place].path + ".log", position + 80, b"\xff\xff")
    assert len(scrubbed(log)) == 2
    assert scrubbed(log) == []


def test_a_damaged_end_of_a_segment_is_found() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    offset, position = batch_positions(log, 0)[-1]
    disk.damage(log.segments[0].path + ".log", position + 16, b"\x07")
    (found,) = scrubbed(log)
    assert (found.damage.first_offset, found.damage.next_offset) == (offset, log.segments[1].base_offset)


def test_what_it_finds_is_known_at_the_next_start() -> None:
    disk = PowerCutDisk()
    log = filled(disk)
    offset, position = batch_positions(log, 1)[2]
    disk.damage(log.segments[1].path + ".log", position + 80, b"\xff\xff")
    (found,) = scrubbed(log)
    log.checkpoint()
    again = Log.open(disk, DIRECTORY, log.settings, now_ms=NOW_MS)
    with pytest.raises(PenstockError) as refusal:
        again.read(offset, 100, upto=again.end_offset, at_least_one=True)
    assert str(refusal.value) == str(found.damage.error())


def test_segments_that_are_deleted_or_truncated_meanwhile_are_left_out() -> None:
    disk = PowerCutDisk()
    log = filled(disk, file_delete_delay_ms=0)
    scrub = Scrub(log.segments[:-1])
    scrub.step(700)
    third = log.segments[2]
    log.delete_records(log.segments[1].base_offset + 1)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    log.truncate_to(third.base_offset + 5)
    found = []
    while not scrub.is_done:
        found += scrub.step(700).found
    assert found == []
    assert not any(segment.damage for segment in log.segments)
