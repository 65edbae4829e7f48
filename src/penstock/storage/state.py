"""What a log consists of while it is open, and the steps that its operations share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from penstock.config.log import LogSettings
from penstock.disk.interface import Disk, write_fully
from penstock.errors import PenstockError, Problem
from penstock.storage.checkpoint import Checkpoint, CheckpointFiles, ProducerSnapshot
from penstock.storage.recovery import Recovered
from penstock.storage.sealed import seal
from penstock.storage.segment import SNAPSHOT_SUFFIX, Segment
from penstock.storage.sync import GroupCommit

# A scan reads a gigabyte in half a second and looks at forty thousand batches in a tenth: checkpoints so far apart
# keep recovery of one log to about that tenth, and cost a few syncs of small files each.
CHECKPOINT_BYTES = 128 * 2**20
CHECKPOINT_BATCHES = 40_000
# Descriptors and indexes of closed segments that are kept for the next reader.
_WARM_SEGMENTS = 4


class LogState:
    """All of it belongs to the event loop's thread."""

    def __init__(
        self, disk: Disk, directory: str, settings: LogSettings, files: CheckpointFiles, recovered: Recovered
    ) -> None:
        self.disk = disk
        self.directory = directory
        # Replaced at run time when the topic's configuration changes.
        self.settings = settings
        self.files = files
        self.recovery = recovered.report
        self.segments = recovered.segments
        # The segment that is appended to; None when the next append begins a new one.
        self.active = self.segments[-1] if recovered.appendable else None
        self.epochs = recovered.epochs
        self.producer_states = recovered.producers
        self.start_offset = recovered.start_offset
        self.end_offset = recovered.end_offset
        self.synced_offset = recovered.end_offset
        self.latest_epoch = self.epochs.latest
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.commit = GroupCommit(disk, directory)
        self.failure: str | None = None
        # Deleted segments whose files are still there, and when those may go.
        self.doomed: list[tuple[int, Segment]] = []
        self.unsaved_bytes = 0
        self.unsaved_batches = 0
        # Base offsets and positions of the newest batches of the active segment, all written by this process.
        self.tail_offsets: list[int] = []
        self.tail_positions: list[int] = []
        self._warm: list[Segment] = []

    def segment_of(self, offset: int) -> Segment | None:
        """The segment in whose range `offset` lies; None if that is below the first or all are gone."""
        place = bisect_right(self.segments, offset, key=_base_offset)
        return self.segments[place - 1] if place else None

    def segment_after(self, segment: Segment) -> Segment | None:
        place = bisect_right(self.segments, segment.base_offset, key=_base_offset)
        return self.segments[place] if place < len(self.segments) else None

    def warm(self, segment: Segment) -> None:
        """It is being read: keep it open, and let go of the one that was not read for longest."""
        if segment is self.active:
            return
        if segment in self._warm:
            self._warm.remove(segment)
        self._warm.append(segment)
        if len(self._warm) > _WARM_SEGMENTS:
            self._warm.pop(0).release()

    def roll(self, now_ms: int) -> Segment:
        """A new segment to append to. Raises OSError; then everything is as it was."""
        segment = Segment(self.disk, self.directory, self.end_offset, now_ms)
        segment.create()
        self.commit.made_name()
        if self.active is not None:
            self.commit.rolled(self.active)
            self.warm(self.active)
        snapshot = ProducerSnapshot(self.end_offset, self.producer_states.entries())
        # Truncation without it goes back to an older one, or to the log itself.
        with suppress(OSError):
            write_fully(self.disk.open(segment.path + SNAPSHOT_SUFFIX, create=True), [seal(snapshot)], 0)
        self.segments.append(segment)
        self.active = segment
        self.tail_offsets, self.tail_positions = [], []
        return segment

    def gather_checkpoint(self) -> Callable[[], None]:
        """The log as it is now, to be written when everything before is synced. Blocking; raises OSError."""
        content = Checkpoint(
            self.end_offset,
            [segment.row() for segment in self.segments],
            self.epochs.starts(),
            self.producer_states.entries(),
        )
        blocks = [
            block
            for segment in self.segments
            if segment.indexes is not None
            for block in segment.indexes.take_blocks(segment.size)
        ]
        self.unsaved_bytes = self.unsaved_batches = 0
        return partial(self.files.write, self.files.take_turn(), blocks, content)

    def checkpoint_failed(self) -> None:
        """What was counted as saved may not be."""
        for segment in self.segments:
            if segment.indexes is not None:
                segment.indexes.forget_saved()

    def failed_error(self) -> PenstockError:
        return PenstockError(Problem.STORAGE_FAILED, f"this log has failed and must be opened anew: {self.failure}")


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
