"""Which part of a log to compact, and what stays of a batch. Kafka's rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import NamedTuple

from penstock.errors import PenstockError, Problem
from penstock.storage.core.cleaned_transactions import CleanedTransactions
from penstock.storage.core.key_map import KeyMap
from penstock.wire.batch import BatchHeader
from penstock.wire.control import read_marker
from penstock.wire.records import Record, build_batch, has_delete_horizon, records_of

# Offsets inside a segment are told by 31 bits from its base offset.
_MAX_SEGMENT_SPAN = 2**31 - 1
# The latest moment that a batch can name.
_NEVER_MS = 2**63 - 1


class ClosedSegment(NamedTuple):
    """A segment that is no longer written to. `oldest_ms`: when it was begun; `newest_ms`: of its newest record."""

    base_offset: int
    next_offset: int
    size_bytes: int
    oldest_ms: int
    newest_ms: int


class CompactionRules(NamedTuple):
    """The settings of the topic that matter here, by Kafka's names."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    segment_bytes: int


class DirtyRange(NamedTuple):
    """Offsets that have not been compacted yet and can be."""

    start_offset: int
    end_offset: int


def dirty_range(
    closed: Sequence[ClosedSegment], rules: CompactionRules, *, clean_offset: int, bound_offset: int, now_ms: int
) -> DirtyRange | None:
    """What is worth compacting now, if anything: whole segments below `bound_offset`, the last stable offset.

    Everything below `clean_offset` was compacted before.
    """
    clean_bytes, dirty_bytes = 0, 0
    oldest_dirty_ms = now_ms
    end_offset = clean_offset
    for segment in closed:
        if segment.next_offset > bound_offset:
            break
        if segment.next_offset <= clean_offset:
            clean_bytes += segment.size_bytes
            continue
        if rules.min_compaction_lag_ms and segment.newest_ms > now_ms - rules.min_compaction_lag_ms:
            break
        dirty_bytes += segment.size_bytes
        end_offset = segment.next_offset
        oldest_dirty_ms = min(oldest_dirty_ms, segment.oldest_ms)
    if not dirty_bytes:
        return None
    overdue = oldest_dirty_ms < now_ms - rules.max_compaction_lag_ms
    if overdue or dirty_bytes / (clean_bytes + dirty_bytes) > rules.min_cleanable_dirty_ratio:
        return DirtyRange(max(clean_offset, closed[0].base_offset), end_offset)
    return None


def merge_groups(closed: Sequence[ClosedSegment], segment_bytes: int) -> list[list[int]]:
    """Which neighbours become one segment: by their sizes before, so the result cannot be larger than a segment."""
    groups: list[list[int]] = []
    size_bytes = 0
    for place, segment in enumerate(closed):
        if groups:
            first = closed[groups[-1][0]]
            span = segment.next_offset - first.base_offset
            if size_bytes + segment.size_bytes <= segment_bytes and span <= _MAX_SEGMENT_SPAN:
                groups[-1].append(place)
                size_bytes += segment.size_bytes
                continue
        groups.append([place])
        size_bytes = segment.size_bytes
    return groups


class Fate(Enum):
    UNCHANGED = auto()
    REWRITTEN = auto()
    DROPPED = auto()


class Outcome(NamedTuple):
    fate: Fate
    batch: bytes | bytearray | memoryview


class BatchFilter:
    """Decides what stays of the batches of a log, in order. `mapped_offset`: the key map knows all records below it."""

    def __init__(
        self,
        keys: KeyMap,
        *,
        mapped_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        kept_batches: Collection[tuple[int, int]],
        limit_bytes: int,
        kept_markers: Collection[tuple[int, int]] = (),
        keeps_all_markers: bool = False,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        """`kept_batches`: producer id and last offset of batches that tell a living producer's sequence.

        `kept_markers`: producer id and epoch of living producers of which only a marker tells the epoch.
        `keeps_all_markers`: a replica may lack some of them, and still have what they end.
        """
        self._keys = keys
        self._mapped_offset = mapped_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._kept_batches = kept_batches
        self._limit_bytes = limit_bytes
        self._kept_markers = kept_markers
        self._keeps_all_markers = keeps_all_markers
        self._transactions = transactions or CleanedTransactions()

    def apply(self, batch: memoryview, header: BatchHeader, *, is_edge: bool) -> Outcome:
        """`is_edge`: it is the first or the last of its new segment. Those two stay, if need be empty, because they

        tell where the segment begins and ends.
        """
        if header.is_control:
            return self._apply_to_marker(batch, header, is_edge)
        is_aborted = self._transactions.is_aborted(header)
        if header.base_offset >= self._mapped_offset:
            return Outcome(Fate.UNCHANGED, batch)
        if is_aborted:
            return self._emptied(batch, header, is_edge)
        records = readable_records(batch, self._limit_bytes)
        if records is None:
            return Outcome(Fate.UNCHANGED, batch)
        horizon_ms = header.base_timestamp if has_delete_horizon(header) else None
        retained = [record for record in records if self._stays(record, horizon_ms)]
        if not retained:
            return self._emptied(batch, header, is_edge)
        starts_horizon = horizon_ms is None and any(record.value is None for record in retained)
        if len(retained) == len(records) and not starts_horizon:
            return Outcome(Fate.UNCHANGED, batch)
        if starts_horizon:
            horizon_ms = min(self._now_ms + self._delete_retention_ms, _NEVER_MS)
        return Outcome(Fate.REWRITTEN, _rebuilt(header, retained, horizon_ms))

    def _apply_to_marker(self, batch: memoryview, header: BatchHeader, is_edge: bool) -> Outcome:
        """It stays as long as anything of its transaction, and then as long as a deletion marker would."""
        marker = read_marker(batch)
        if marker is None or not self._transactions.leaves_nothing(header, marker):
            return Outcome(Fate.UNCHANGED, batch)
        is_kept = self._keeps_all_markers or (header.producer_id, header.producer_epoch) in self._kept_markers
        if is_edge or is_kept or header.base_offset >= self._mapped_offset:
            return Outcome(Fate.UNCHANGED, batch)
        if not has_delete_horizon(header):
            records = list(records_of(batch, limit_bytes=self._limit_bytes))
            horizon_ms = min(self._now_ms + self._delete_retention_ms, _NEVER_MS)
            return Outcome(Fate.REWRITTEN, _rebuilt(header, records, horizon_ms))
        if header.base_timestamp > self._now_ms:
            return Outcome(Fate.UNCHANGED, batch)
        return Outcome(Fate.DROPPED, b"")

    def _stays(self, record: Record, horizon_ms: int | None) -> bool:
        if record.offset >= self._mapped_offset:
            return True
        if record.key is None:
            return False
        newest = self._keys.newest(record.key)
        if newest is not None and newest > record.offset:
            return False
        return record.value is not None or horizon_ms is None or horizon_ms > self._now_ms

    def _emptied(self, batch: memoryview, header: BatchHeader, is_edge: bool) -> Outcome:
        if not is_edge and (header.producer_id, header.last_offset) not in self._kept_batches:
            return Outcome(Fate.DROPPED, b"")
        if header.record_count == 0:
            return Outcome(Fate.UNCHANGED, batch)
        return Outcome(Fate.REWRITTEN, _rebuilt(header, [], None))


def readable_records(batch: memoryview, limit_bytes: int) -> list[Record] | None:
    """None: nobody can read them within the limit. Nothing was checked when the batch came if its topic was not

    compacted then. It stays as it is: what cannot be understood is not thrown away.
    """
    try:
        return list(records_of(batch, limit_bytes=limit_bytes))
    except PenstockError as error:
        if error.problem not in _UNREADABLE:
            raise
        return None


_UNREADABLE = {
    Problem.INVALID_RECORD,
    Problem.CORRUPT_RECORDS,
    Problem.RECORDS_TOO_LARGE,
    Problem.UNSUPPORTED_COMPRESSION,
}


def _rebuilt(header: BatchHeader, records: Sequence[Record], horizon_ms: int | None) -> bytearray:
    """The last offset stays, so that the producer's last sequence does."""
    fixed_time = header.is_log_append_time or not records
    return build_batch(
        records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        is_log_append_time=header.is_log_append_time,
        max_timestamp_ms=header.max_timestamp if fixed_time else None,
        delete_horizon_ms=horizon_ms,
    )
