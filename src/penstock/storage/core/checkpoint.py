"""The log's checkpoint: what is known of everything below the recovery point, so that a start need not read it."""

from __future__ import annotations

import msgspec

from penstock.storage.core.damage import Damage
from penstock.storage.core.holes import Holes
from penstock.storage.core.leader_epochs import EpochStart
from penstock.storage.core.producer_state import ProducerEntry


class SegmentRow(msgspec.Struct, array_like=True, frozen=True):
    base_offset: int
    generation: int
    size: int
    next_offset: int
    max_timestamp_ms: int
    created_ms: int
    gaps: bool
    damage: list[Damage]
    # How many rows its index of aborted transactions has.
    aborted: int = 0


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """The log as it was when it ended at `recovery_offset`; all bytes below that are synced."""

    recovery_offset: int
    start_offset: int
    segments: list[SegmentRow]
    epochs: list[EpochStart]
    producers: list[ProducerEntry]
    # Compaction has been over everything below it.
    clean_offset: int = 0
    # What entries of the journal before this one have of the log does not count any more.
    journal_sequence: int = 0
    # The log was truncated to `recovery_offset` and nothing was appended since: all that its files have beyond is left
    # over, and goes before another checkpoint takes the place of this one.
    is_cut: bool = False
    # Below `recovery_offset`, and not synced all the same: they were found by a start, and are not filled yet.
    holes: Holes = Holes()


class StartOffset(msgspec.Struct, array_like=True, frozen=True):
    start_offset: int


class ProducerSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """Written when a segment begins: what was known of producers then, so that truncation can go back to it."""

    offset: int
    producers: list[ProducerEntry]
