"""cleanup.policy=compact: of each key the newest record stays.

A compaction is driven from the event loop; the heavy work runs on pool threads, over closed segments that nobody
writes to. New segments get names of the next generation and count once a checkpoint names them, so a crash at any
moment leaves the old ones or the new.
"""

from __future__ import annotations

import threading

from penstock.storage.cleaning import KEY_MAP_BYTES, Cleaning, CleaningTask, Replacement, facts_of
from penstock.storage.core.compaction import CompactionRules, DirtyRange, dirty_range
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from penstock.units import MIB

# What one batch may unpack to; one that is larger stays as it is. Producers to compacted topics are held to it too.
RECORDS_LIMIT_BYTES = 32 * MIB


class Compaction:
    """Of one log, once. On the event loop's thread, except `work`.

        compaction = Compaction.begin(log, bound_offset=last_stable_offset, now_ms=now_ms)
        while not compaction.is_done:
            compaction.work()          # on a pool thread
            compaction.settle(now_ms)
        log.begin_sync(checkpoint=True)

    New segments are put in use from the oldest on and a checkpoint names all that are in use, so no deletion marker
    goes before everything that it deletes is gone. If `work` raises (OSError, PenstockError for damage), `abandon`
    it; the log is as sound as before. Once the log has failed or is closed nothing is touched any more, because its
    directory may be another log's by then; the next start sweeps up what is left.
    """

    def __init__(self, log: Log, dirty: DirtyRange, now_ms: int, key_map_bytes: int, keeps_all_markers: bool) -> None:
        self._log = log
        self._truncations = log.truncations
        self._end_offset = dirty.end_offset
        self._key_map_bytes = key_map_bytes
        self._keeps_all_markers = keeps_all_markers
        self._cleaning = self._pass_over(dirty, now_ms)
        self._ready: Replacement | None = None
        self._one_at_a_time = threading.Lock()
        self.is_done = False

    @classmethod
    def begin(
        cls,
        log: Log,
        *,
        bound_offset: int,
        now_ms: int,
        key_map_bytes: int = KEY_MAP_BYTES,
        keeps_all_markers: bool = False,
    ) -> Compaction | None:
        """None if there is nothing worth it now. `bound_offset`: the last stable offset; nothing behind it counts.

        `keeps_all_markers`: a replica may lack what is below that. It would never learn how a transaction has ended of
        which it has something, and nobody else.
        """
        if log.failure is not None or "compact" not in log.settings.cleanup_policy:
            return None
        # Until a checkpoint names what replaces them, a crash brings the old segments back as their files are. What is
        # committed may be in the page cache of this replica only: others have synced it.
        bound_offset = min(bound_offset, log.synced_offset)
        dirty = dirty_range(
            [facts_of(segment) for segment in _closed(log)],
            _rules(log),
            clean_offset=log.clean_offset,
            bound_offset=bound_offset,
            now_ms=now_ms,
        )
        return cls(log, dirty, now_ms, key_map_bytes, keeps_all_markers) if dirty is not None else None

    def work(self) -> None:
        """A step. Blocking, on a pool thread."""
        with self._one_at_a_time:
            self._ready = None
            if self._is_void and self._log.failure is None:
                self._cleaning.abandon()
            elif not self.is_done and self._log.failure is None:
                self._ready = self._cleaning.step()

    def settle(self, now_ms: int) -> None:
        """Puts what `work` made in use. Call it after each."""
        replacement, self._ready = self._ready, None
        if self._log.failure is not None:
            self.is_done = True
        elif replacement is not None:
            if self._is_void or not self._log.replace_segments(*replacement[:2], now_ms, replacement.dropped_markers):
                # Truncation or retention was faster.
                self._log.doomed.append((now_ms, replacement.new))
                self.is_done = True
        elif self._cleaning.is_done and self._is_void:
            self.is_done = True
        elif self._cleaning.is_done:
            self._finish_pass(now_ms)

    def abandon(self) -> None:
        """Blocking, on a pool thread; waits for work that is running."""
        self.is_done = True
        with self._one_at_a_time:
            ready, self._ready = self._ready, None
            if self._log.failure is None:
                self._cleaning.abandon()
                if ready is not None:
                    ready.new.remove_files()

    @property
    def _is_void(self) -> bool:
        """The log was truncated since: records may be gone for newer ones that were taken back."""
        return self._log.truncations != self._truncations

    def _finish_pass(self, now_ms: int) -> None:
        clean_offset = self._cleaning.clean_offset
        self._log.clean_offset = clean_offset
        if clean_offset >= self._end_offset:
            self.is_done = True
        else:
            # There were more keys than fit the map.
            self._cleaning = self._pass_over(DirtyRange(clean_offset, self._end_offset), now_ms)

    def _pass_over(self, dirty: DirtyRange, now_ms: int) -> Cleaning:
        log = self._log
        closed = tuple(segment for segment in _closed(log) if segment.base_offset < dirty.end_offset)
        # The names of those that wait to be deleted are not free yet.
        others = [segment for _, segment in (*log.doomed, *log.replaced)]
        task = CleaningTask(
            closed,
            dirty,
            _rules(log),
            now_ms,
            frozenset(
                (entry.producer_id, batch.next_offset - 1) for entry in log.producers() for batch in entry.batches
            ),
            frozenset((entry.producer_id, entry.epoch) for entry in log.producers() if not entry.batches),
            self._keeps_all_markers,
            tuple(log.aborted.rows.overlapping(closed[0].base_offset, dirty.end_offset)) if closed else (),
            1 + max(segment.generation for segment in (*log.segments, *others)),
            log.settings.index_interval_bytes,
            RECORDS_LIMIT_BYTES,
        )
        return Cleaning(log.disk, log.directory, task, self._key_map_bytes)


def _closed(log: Log) -> list[Segment]:
    """What is not appended to, up to the first damage: the bytes around that are kept as they are."""
    closed = []
    for segment in log.segments:
        if segment is log.active or segment.damage:
            break
        if segment.next_offset > log.start_offset:
            closed.append(segment)
    return closed


def _rules(log: Log) -> CompactionRules:
    settings = log.settings
    return CompactionRules(
        settings.min_cleanable_dirty_ratio,
        settings.min_compaction_lag_ms,
        settings.max_compaction_lag_ms,
        settings.delete_retention_ms,
        settings.segment_bytes,
    )
