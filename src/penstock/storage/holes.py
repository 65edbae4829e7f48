"""Where a log has to be cut before its replica may say that it has everything."""

from __future__ import annotations

from penstock.storage.state import LogState


def first_hole(log: LogState) -> int | None:
    """Of those that begin, or go on, above its start."""
    return log.holes.first(log.start_offset)
