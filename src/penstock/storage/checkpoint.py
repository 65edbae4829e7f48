"""The log's checkpoint: what is known of everything below the recovery point, so that a start need not read it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from penstock.disk.interface import Disk, replace_atomically
from penstock.storage.core.damage import Damage
from penstock.storage.core.holes import Holes
from penstock.storage.core.leader_epochs import EpochStart
from penstock.storage.core.producer_state import ProducerEntry
from penstock.storage.index import IndexBlock
from penstock.storage.sealed import read_sealed, seal

CHECKPOINT_NAME = "checkpoint"
START_OFFSET_NAME = "start-offset"


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


class CheckpointFiles:
    """Of one log. Threads write them in turn, and none overwrites what was decided after its own content.

    A turn is taken on the event loop's thread when the content is gathered.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._lock = threading.Lock()
        self._turn = 0
        self._written_turn = 0
        self._start_offset = 0
        # What is read after a kill may not be on disk for good, so this knows only what was written since.
        self._durable_start_offset = 0

    def take_turn(self) -> int:
        self._turn += 1
        return self._turn

    def read(self) -> tuple[Checkpoint | None, int]:
        checkpoint = read_sealed(self._disk, self._path(CHECKPOINT_NAME), Checkpoint)
        start = read_sealed(self._disk, self._path(START_OFFSET_NAME), StartOffset)
        self._start_offset = max(start.start_offset if start else 0, checkpoint.start_offset if checkpoint else 0)
        return checkpoint, self._start_offset

    def write(self, turn: int, blocks: Sequence[IndexBlock], checkpoint: Checkpoint, for_good: bool) -> None:
        """Blocking. The caller has synced what the checkpoint speaks of.

        Not `for_good`: a power cut may bring the one before back, and a start reads more of the log. Who takes
        something away that the one before speaks of must wait for it for good.
        """
        with self._lock:
            if turn < self._written_turn:
                return
            for block in blocks:
                block.write(self._disk)
            replace_atomically(self._disk, self._path(CHECKPOINT_NAME), seal(checkpoint), for_good=for_good)
            self._written_turn = turn
            if for_good:
                self._durable_start_offset = max(self._durable_start_offset, checkpoint.start_offset)

    def write_start_offset(self, start_offset: int) -> None:
        """Blocking. Durable when it returns; never goes back."""
        with self._lock:
            if start_offset > self._durable_start_offset:
                highest = max(start_offset, self._start_offset)
                replace_atomically(self._disk, self._path(START_OFFSET_NAME), seal(StartOffset(highest)))
                self._start_offset = self._durable_start_offset = highest

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
