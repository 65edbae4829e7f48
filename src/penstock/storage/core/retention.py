"""Which segments of a log have outlived retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

UNLIMITED = -1


class SegmentFacts(NamedTuple):
    """What the decision needs of a segment. `newest_ms`: its newest record, or when it was begun if that is unknown."""

    next_offset: int
    size_bytes: int
    newest_ms: int


def expired_count(
    segments: Sequence[SegmentFacts],
    *,
    start_offset: int,
    limit_offset: int,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
    active_bytes: int,
) -> int:
    """How many closed segments, from the oldest on, may go: whole ones below `limit_offset` only.

    A segment goes when all of it lies below the start offset, when its newest record is too old, or when the segments
    behind it alone hold `retention_bytes`.
    """
    remaining = active_bytes + sum(segment.size_bytes for segment in segments)
    for count, segment in enumerate(segments):
        if segment.next_offset > limit_offset:
            return count
        remaining -= segment.size_bytes
        deleted = segment.next_offset <= start_offset
        too_old = retention_ms != UNLIMITED and now_ms - segment.newest_ms > retention_ms
        too_much = retention_bytes != UNLIMITED and remaining >= retention_bytes
        if not (deleted or too_old or too_much):
            return count
    return len(segments)
