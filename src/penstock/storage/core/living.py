"""Which of the segment files in a directory are the log, and which an interrupted step has left behind."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from penstock.storage.core.checkpoint import Checkpoint, SegmentRow
from penstock.storage.core.log_files import LOG_SUFFIX, SEGMENT_FILE, segment_stem


def living_segments(names: Collection[str], checkpoint: Checkpoint | None, start_offset: int) -> dict[int, int]:
    """Generations by base offset. Those below the start do not count, nor those that the checkpoint would know if they

    did.
    """
    rows = {} if checkpoint is None else {row.base_offset: row for row in checkpoint.segments}
    recovery_offset = 0 if checkpoint is None else checkpoint.recovery_offset
    living: dict[int, int] = {}
    for name in names:
        if (match := SEGMENT_FILE.fullmatch(name)) and match[3] == LOG_SUFFIX:
            base_offset, generation = int(match[1]), int(match[2] or 0)
            if _counts(names, checkpoint, rows.get(base_offset), base_offset, generation):
                living[base_offset] = max(generation, living.get(base_offset, 0))
    for base_offset in list(living):
        if base_offset not in rows and base_offset < recovery_offset:
            del living[base_offset]
    for before, after in pairwise(sorted(living)):
        # What compaction has merged is of an older generation, and says nothing of where the merged one ends.
        if after <= start_offset and living[after] >= living[before]:
            del living[before]
    return living


def _counts(
    names: Collection[str], checkpoint: Checkpoint | None, row: SegmentRow | None, base_offset: int, generation: int
) -> bool:
    """Whether such a segment may be the log's. Without a checkpoint the newest generation counts: it got its name when

    it was complete. With one, only what has no generation can have been made since.
    """
    if row is not None:
        return generation == row.generation or segment_stem(base_offset, row.generation) + LOG_SUFFIX not in names
    return checkpoint is None or (not checkpoint.is_cut and generation == 0)
