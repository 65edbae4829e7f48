"""Retention at work: what has outlived it leaves the log at once, and its files a little later."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from penstock.storage.core.log_files import SIDE_SUFFIXES
from penstock.storage.core.retention import UNLIMITED, expired_count
from penstock.storage.segment import Segment
from penstock.storage.state import LogState


class Deletion:
    """Work for a pool thread: the new start first, so that no crash leaves a log that misses its first segments."""

    def __init__(self, log: LogState, segments: Sequence[Segment]) -> None:
        self._log = log
        self._files = log.files
        self._start_offset = log.start_offset
        self._segments = segments

    def run(self) -> None:
        """Blocking. Raises OSError: then the next `apply_retention` gives out again what is left.

        Does nothing once the log has failed or is closed: its directory may be another log's by now.
        """
        if self._log.failure is not None:
            return
        try:
            self._files.write_start_offset(self._start_offset)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # A full disk is when deletion is needed most. What could be made again makes room for the new start.
            for segment in self._segments:
                segment.remove_files(SIDE_SUFFIXES)
            self._files.write_start_offset(self._start_offset)
        for segment in self._segments:
            if self._log.failure is None:
                segment.remove_files()


def apply_retention(log: LogState, now_ms: int, limit_offset: int) -> Deletion | None:
    """Takes expired segments out of the log. Raises OSError if the active one is expired, no new one can be made and

    there is nothing else to do; what there is makes room on a full disk, and its turn comes next time.
    """
    settings = log.settings
    deletes = "delete" in settings.cleanup_policy
    retention_ms = settings.retention_ms if deletes else UNLIMITED
    failure: OSError | None = None
    if retention_ms != UNLIMITED:
        failure = _close_expired(log, now_ms, limit_offset, retention_ms)
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
    # Until they are gone they stay: a truncation meanwhile must know all files that could come back.
    log.doomed = [(due_ms, segment) for due_ms, segment in log.doomed if not segment.is_removed]
    due = [segment for due_ms, segment in log.doomed if due_ms <= now_ms]
    if expired or due:
        return Deletion(log, due)
    if failure is not None:
        raise failure
    return None


def _close_expired(log: LogState, now_ms: int, limit_offset: int, retention_ms: int) -> OSError | None:
    """Only closed segments can go, so one that is still written to is closed when all of it is too old."""
    active = log.active
    if active is None or not active.size or active.next_offset > limit_offset:
        return None
    if now_ms - active.facts.newest_ms <= retention_ms:
        return None
    try:
        log.roll(now_ms)
    except OSError as error:
        return error
    return None
