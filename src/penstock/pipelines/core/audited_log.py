"""A log of one replica as an audit finds it, before its segments are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import msgspec

from penstock.storage.core.checkpoint import Checkpoint, SegmentRow
from penstock.storage.core.leader_epochs import EpochStart, LeaderEpochs
from penstock.storage.core.living import living_segments
from penstock.storage.core.log_files import LOG_SUFFIX, segment_stem
from penstock.wire.audit_messages import ListedLog, ListedSegment

UNKNOWN = -1
NO_TOPIC_ID = UUID(int=0)


class AuditedLog(msgspec.Struct, frozen=True):
    """`segments`: those that the log has, with what is known without reading them; `next_offset` may be UNKNOWN.

    `is_served`: a node has it open. Then everything in `segments` was whole when it was listed, and what the log looks
    like may change at any time; else its node has stopped, perhaps in the middle of something.
    """

    replica: str
    topic: str
    topic_id: UUID
    partition: int
    is_served: bool
    start_offset: int
    high_watermark: int
    may_have_gaps: bool
    segments: tuple[ListedSegment, ...]
    checkpoint: Checkpoint | None = None
    truncations: int = 0
    failure: str | None = None
    # Where a node that has it open would append.
    end_offset: int = UNKNOWN
    # What was gone when that node started.
    lost: tuple[int, int] | None = None

    @property
    def name(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def vouched_offset(self) -> int:
        """The checkpoint speaks for all below it."""
        return 0 if self.checkpoint is None else self.checkpoint.recovery_offset

    @property
    def stable_offset(self) -> int:
        """Of every transaction that has something below it the checkpoint knows how it ended."""
        begun = [] if self.checkpoint is None else [entry.transaction_start for entry in self.checkpoint.producers]
        return min([self.vouched_offset, *(offset for offset in begun if offset >= 0)])

    def row_of(self, segment: ListedSegment) -> SegmentRow | None:
        """What the checkpoint says of it."""
        for row in () if self.checkpoint is None else self.checkpoint.segments:
            if (row.base_offset, row.generation) == (segment.base_offset, segment.generation):
                return row
        return None

    def epochs(self) -> LeaderEpochs:
        """Those that the checkpoint vouches for."""
        starts: Sequence[EpochStart] = () if self.checkpoint is None else self.checkpoint.epochs
        epochs = LeaderEpochs(starts)
        # One in which nothing was written yet.
        epochs.cut_end(self.vouched_offset)
        return epochs


def served_log(replica: str, listed: ListedLog, checkpoint: Checkpoint | None) -> AuditedLog:
    """`checkpoint`: read after the log was listed, so it may speak of more, and of a later start."""
    rows = {} if checkpoint is None else {(row.base_offset, row.generation): row for row in checkpoint.segments}
    segments = []
    for segment in listed.segments:
        row = rows.get((segment.base_offset, segment.generation))
        if row is not None and row.size > segment.size:
            segment = ListedSegment(row.base_offset, row.generation, row.size, row.next_offset)
        segments.append(segment)
    return AuditedLog(
        replica=replica,
        topic=listed.topic,
        topic_id=listed.topic_id,
        partition=listed.partition,
        is_served=True,
        start_offset=max(listed.start_offset, 0 if checkpoint is None else checkpoint.start_offset),
        high_watermark=listed.high_watermark,
        may_have_gaps=listed.may_have_gaps,
        segments=tuple(segments),
        checkpoint=checkpoint,
        truncations=listed.truncations,
        failure=listed.failure,
        end_offset=listed.end_offset,
        lost=listed.lost,
    )


def stopped_log(
    replica: str,
    topic: str,
    topic_id: UUID,
    partition: int,
    sizes: Mapping[str, int],
    says_gaps: bool,
    checkpoint: Checkpoint | None,
    start_offset: int,
) -> AuditedLog:
    """From a directory that no node uses: the segments that the next start would take for the log.

    `sizes`: of all files in it. `start_offset`: what the file of that name says.
    """
    start_offset = max(start_offset, 0 if checkpoint is None else checkpoint.start_offset)
    living = living_segments(sizes, checkpoint, start_offset)
    rows = {} if checkpoint is None else {(row.base_offset, row.generation): row for row in checkpoint.segments}
    segments = []
    for base_offset, generation in sorted(living.items()):
        size = sizes[segment_stem(base_offset, generation) + LOG_SUFFIX]
        row = rows.get((base_offset, generation))
        if row is not None and checkpoint is not None and checkpoint.is_cut:
            # What is behind it was truncated, and the next start cuts it off.
            size = min(size, row.size)
        is_known = row is not None and row.size == size
        segments.append(
            ListedSegment(base_offset, generation, size, row.next_offset if row is not None and is_known else UNKNOWN)
        )
    has_gaps = says_gaps or any(row.gaps for row in rows.values())
    return AuditedLog(
        replica=replica,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        is_served=False,
        start_offset=start_offset,
        high_watermark=UNKNOWN,
        may_have_gaps=has_gaps,
        segments=tuple(segments),
        checkpoint=checkpoint,
    )


def missing_rows(log: AuditedLog, names: Collection[str]) -> list[SegmentRow]:
    """Segments that the checkpoint of a stopped log speaks of, and that are not there."""
    if log.checkpoint is None:
        return []
    return [
        row
        for row in log.checkpoint.segments
        if row.size
        and row.next_offset > log.start_offset
        and segment_stem(row.base_offset, row.generation) + LOG_SUFFIX not in names
    ]
