"""A client may send bytes of batches, of a segment that it keeps say.

Where what holds them is damaged, a search for the next sound batch meets them, and nobody has checked what they say of
themselves.
"""

from __future__ import annotations

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import append, batch_of, contents
from tests.storage.damaged_log import SEGMENT, everything_but, filled, opened

from penstock.wire.batch import stamp

# Beyond what the index of a segment can tell.
FAR_OFFSET = 2**40


def sent_batch() -> bytes:
    batch = batch_of(b"sent by a client")
    stamp(batch, FAR_OFFSET, 0)
    return bytes(batch)


@pytest.mark.parametrize("behind", [0, 2])
def test_one_within_a_torn_batch_takes_no_log_to_offsets_that_it_cannot_have(behind: int) -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 3)
    position = log.size_bytes
    append(log, batch_of(bytes(2 * 4096) + sent_batch()))
    for _ in range(behind):
        append(log, batch_of(b"behind"))
    # A power cut leaves any page of what was not synced, and not others.
    disk.damage(SEGMENT + ".log", position, bytes(4096 - position % 4096))
    again = opened(disk)
    assert again.end_offset == (4 + behind if behind else 3)
    assert list(contents(again, again.end_offset - behind)) == list(range(4, 4 + behind))
    append(again, batch_of(b"next"))
    assert opened(disk).end_offset == again.end_offset


def test_one_within_damage_does_not_hide_what_is_behind_it() -> None:
    disk = PowerCutDisk()
    log, _ = filled(disk, 3)
    position = log.size_bytes
    append(log, batch_of(sent_batch()))
    append(log, batch_of(b"behind"))
    log.close()
    disk.damage(SEGMENT + ".log", position + 30, b"rot")
    everything_but(opened(disk), {3})
