"""Retention at work: what has outlived it leaves the log at once, and its files a little later."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.retention import UNLIMITED, expired_count
from penstock.storage.segment import Segment
from penstock.storage.state import LogState


class Deletion:
    """Work for a pool thread: the new start first, so that no crash leaves a log that misses its first segments."""

    def __init__(self, files: CheckpointFiles, start_offset: int, segments: Sequence[Segment]) -> None:
        self._files = files
        self._start_offset = start_offset
        self._segments = segments

    def run(self) -> None:
        """Blocking. Raises OSError; whatever was not deleted is deleted at the next start."""
        self._files.write_start_offset(self._start_offset)
        for segment in self._segments:
            segment.remove_files()


def apply_retention(log: LogState, now_ms: int, limit_offset: int) -> Deletion | None:
    """Takes expired segments out of the log. Raises OSError if the active one is expired and no new one can be made."""
    settings = log.settings
    deletes = "delete" in settings.cleanup_policy
    retention_ms = settings.retention_ms if deletes else UNLIMITED
    active = log.active
    if (
        active is not None
        and active.size
        and active.next_offset <= limit_offset
        and retention_ms != UNLIMITED
        and now_ms - active.facts.newest_ms > retention_ms
    ):
        log.roll(now_ms)
    closed = log.segments if log.active is None else log.segments[:-1]
    count = expired_count(
        [segment.facts for segment in closed],
        start_offset=log.start_offset,
        limit_offset=limit_offset,
        now_ms=now_ms,
        retention_ms=retention_ms,
        retention_bytes=settings.retention_bytes if deletes else UNLIMITED,
        active_bytes=log.active.size if log.active is not None else 0,
    )
    expired = closed[:count]
    if expired:
        log.drop_oldest(count)
        log.doomed += [(now_ms + settings.file_delete_delay_ms, segment) for segment in expired]
    due = [segment for due_ms, segment in log.doomed if due_ms <= now_ms]
    log.doomed = [(due_ms, segment) for due_ms, segment in log.doomed if due_ms > now_ms]
    return Deletion(log.files, log.start_offset, due) if expired or due else None
