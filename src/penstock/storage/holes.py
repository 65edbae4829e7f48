"""Where a log has to be cut before its replica may say that it has everything."""

from __future__ import annotations

from penstock.storage.state import LogState
from penstock.storage.truncation import settle_truncation


def first_hole(log: LogState) -> int | None:
    """Of those that begin, or go on, above its start."""
    return log.holes.first(log.start_offset)


def first_fresh_hole(log: LogState) -> int | None:
    """The same of those with which nobody has led yet."""
    return log.holes.without_kept().first(log.start_offset)


def keep_holes(log: LogState) -> None:
    """Its replica leads as the log is: what is behind the holes is shown from now on, so that is written down first.

    Blocking; nothing else may use the log meanwhile. Raises PenstockError; then the log has failed.
    """
    log.holes = log.holes.kept_below(log.end_offset)
    try:
        settle_truncation(log)
    except OSError as error:
        log.fail(f"a checkpoint behind what is missing failed: {error}")
        raise log.failed_error() from error
