"""Files that are gone, or shorter than they were: what was in them is refused, not passed over."""

from __future__ import annotations

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of
from tests.storage.damaged_log import DIRECTORY, SEGMENT, everything_but, filled, opened

from penstock.config.log import LogSettings


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_segment_file_that_vanished_is_said_and_its_records_are_refused(policy: str) -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 30, segment_bytes=1024, cleanup_policy=policy)
    log.close()
    bases = sorted(int(name[:20]) for name in disk.list_directory(DIRECTORY) if name.endswith(".log"))
    disk.remove(f"{DIRECTORY}/{bases[1]:020d}.log")
    again = opened(disk, segment_bytes=1024, cleanup_policy=policy)
    assert [(damage.first_offset, damage.next_offset) for damage in again.recovery.damage] == [(bases[1], bases[2])]
    everything_but(again, set(range(bases[1], bases[2])))


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("kept_batches", [0, 1])
def test_what_a_closed_segment_lost_is_an_error_until_it_would_be_deleted(
    kept_batches: int, is_closed: bool, policy: str
) -> None:
    """And the log does not silently begin later."""
    disk = PowerCutDisk()
    log, positions = filled(disk, 12, segment_bytes=350, cleanup_policy=policy)
    if is_closed:
        log.close()
    disk.replace(SEGMENT + ".log", disk.open(SEGMENT + ".log").read(0, positions[kept_batches]))
    log = opened(disk, segment_bytes=350, cleanup_policy=policy)
    following = log.segments[1].base_offset
    assert following > kept_batches + 1
    assert log.apply_retention(NOW_MS) is None and log.start_offset == 0
    everything_but(log, set(range(kept_batches, following)))
    log.close()
    log = opened(disk, segment_bytes=350, cleanup_policy=policy)
    everything_but(log, set(range(kept_batches, following)))
    log.settings = LogSettings(cleanup_policy="delete", segment_bytes=350)
    assert log.apply_retention(NOW_MS + log.settings.retention_ms + 1) is not None
    assert log.start_offset >= following


def test_a_file_that_lost_its_flushed_end_keeps_its_offsets() -> None:
    disk = PowerCutDisk()
    log, positions = filled(disk, 5)
    log.close()
    disk.replace(SEGMENT + ".log", disk.open(SEGMENT + ".log").read(0, positions[3]))
    again = opened(disk)
    assert again.end_offset == 5
    assert append(again, batch_of(b"next")).base_offset == 5
    everything_but(again, {3, 4})
    again.close()
    everything_but(opened(disk), {3, 4})


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("kept_batches", [None, 0, 1])
def test_what_the_last_segment_lost_of_what_was_synced_keeps_its_offsets(kept_batches: int | None, policy: str) -> None:
    """No checkpoint knows it, and nothing is behind it."""
    disk = PowerCutDisk()
    log, positions = filled(disk, 12, segment_bytes=620, cleanup_policy=policy)
    last = log.segments[-1]
    path = last.path + ".log"
    if kept_batches is None:
        disk.remove(path)
    else:
        kept_bytes = positions[last.base_offset + kept_batches] - positions[last.base_offset]
        disk.replace(path, disk.open(path).read(0, kept_bytes))
    lost = set(range(last.base_offset + (kept_batches or 0), 12))
    assert len(lost) > 1 - bool(kept_batches)
    for again in (opened(disk, segment_bytes=620, cleanup_policy=policy) for _ in range(2)):
        assert again.end_offset == 12
        everything_but(again, lost)
    assert append(again, batch_of(b"next")).base_offset == 12
    everything_but(again, lost)
    again.close()
    everything_but(opened(disk, segment_bytes=620, cleanup_policy=policy), lost)


@pytest.mark.parametrize("length", [61, 500])
def test_what_a_synced_segment_became_is_kept(length: int) -> None:
    """Nothing in it is valid; whether somebody can make sense of it, a broker does not know."""
    disk = PowerCutDisk()
    log, _ = filled(disk, 12, segment_bytes=450)
    last = log.segments[-1]
    disk.replace(last.path + ".log", b"?" * length)
    again = opened(disk, segment_bytes=450)
    assert again.end_offset == 12
    everything_but(again, set(range(last.base_offset, 12)))
    again.close()
    opened(disk, segment_bytes=450)
    assert disk.open(last.path + ".log").read(0, length) == b"?" * length


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_segment_that_is_gone_does_not_hide_what_the_one_before_has_lost(policy: str) -> None:
    """Not after a truncation either, which takes the last damage with it."""
    disk = PowerCutDisk()
    log, positions = filled(disk, 6, segment_bytes=350, cleanup_policy=policy)
    log.close()
    first, second = log.segments
    assert second.base_offset == 3
    disk.remove(second.path + ".log")
    disk.replace(first.path + ".log", disk.open(first.path + ".log").read(0, positions[1]))
    again = opened(disk, segment_bytes=350, cleanup_policy=policy)
    everything_but(again, {1, 2, 3, 4, 5})
    again.truncate_to(4)
    append(again, batch_of(b"new"))
    everything_but(again, set(range(1, again.end_offset - 1)))
