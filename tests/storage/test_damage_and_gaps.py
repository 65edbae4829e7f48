"""What is missing because a leader compacted it away, and what a disk has lost: one is never taken for the other."""

from __future__ import annotations

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, contents, sync
from tests.storage.test_replica_append import batches, take

from penstock.config.log import LogSettings
from penstock.storage.log import Log

SEGMENT = f"/log/{0:020d}"


def opened(disk: PowerCutDisk, **settings: object) -> Log:
    return Log.open(disk, "/log", LogSettings(cleanup_policy="compact", **settings), now_ms=NOW_MS)  # type: ignore[arg-type]


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
