"""What a log with transactions of several producers should say, told from its batches in the simplest way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.storage.batches import NOW_MS

from penstock.storage.log import Log
from penstock.wire.batch import read_header
from penstock.wire.control import Marker, build_marker
from penstock.wire.records import Record, build_batch

NO_OFFSET = -1


class Written(NamedTuple):
    """A batch in the log. `marker` of those that end a transaction; `sequence` is the last of the others."""

    base_offset: int
    next_offset: int
    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    marker: Marker | None
    records: tuple[Record, ...]


class Known(NamedTuple):
    """Of a producer."""

    epoch: int
    sequence: int
    transaction_start: int
    coordinator_epoch: int


class Transaction(NamedTuple):
    producer_id: int
    offsets: tuple[int, ...]
    marker_offset: int
    is_commit: bool
    # Where the oldest other began that was open when this one ended.
    stable_offset: int

    @property
    def first_offset(self) -> int:
        return self.offsets[0] if self.offsets else self.marker_offset


def data_batch(
    values: Sequence[tuple[bytes, bytes]], producer_id: int, epoch: int, sequence: int, *, is_transactional: bool
) -> memoryview:
    records = [Record(place, NOW_MS, key, value) for place, (key, value) in enumerate(values)]
    return memoryview(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def end(
    log: Log, producer_id: int, epoch: int, marker: Marker, *, version: int = 1, leader_epoch: int = 0, now_ms: int = 0
) -> int:
    """Appends a marker as a leader does; its offset. Raises PenstockError."""
    log.producer_states.check_marker(producer_id, epoch, marker.coordinator_epoch, version)
    batch = memoryview(build_marker(producer_id, epoch, marker, NOW_MS))
    appended = log.append(batch, read_header(batch), leader_epoch=leader_epoch, now_ms=now_ms or NOW_MS)
    return appended.base_offset


def producers_after(written: Sequence[Written]) -> dict[int, Known]:
    known: dict[int, Known] = {}
    for batch in written:
        if batch.producer_id < 0:
            continue
        epoch, sequence, start, coordinator_epoch = known.get(batch.producer_id, Known(-1, -1, NO_OFFSET, -1))
        if batch.epoch != epoch:
            sequence = -1
        if batch.marker is not None:
            start, coordinator_epoch = NO_OFFSET, batch.marker.coordinator_epoch
        else:
            sequence = batch.sequence
            if batch.is_transactional and start == NO_OFFSET:
                start = batch.base_offset
        known[batch.producer_id] = Known(batch.epoch, sequence, start, coordinator_epoch)
    return known


def transactions_in(written: Sequence[Written]) -> list[Transaction]:
    """Those that have ended, also those that had nothing here."""
    found = []
    begun: dict[int, list[int]] = {}
    for batch in written:
        if batch.marker is not None:
            offsets = tuple(begun.pop(batch.producer_id, ()))
            stable_offset = min((each[0] for each in begun.values()), default=batch.next_offset)
            found.append(
                Transaction(batch.producer_id, offsets, batch.base_offset, batch.marker.is_commit, stable_offset)
            )
        elif batch.is_transactional:
            begun.setdefault(batch.producer_id, []).append(batch.base_offset)
    return found


def last_stable_offset(written: Sequence[Written], high_watermark: int) -> int:
    ended = [each.first_offset for each in transactions_in(written) if each.marker_offset >= high_watermark]
    still_open = [each.transaction_start for each in producers_after(written).values() if each.transaction_start >= 0]
    return min([high_watermark, *ended, *still_open])


def committed(written: Sequence[Written], start_offset: int, stable_offset: int) -> list[Record]:
    aborted = {offset for each in transactions_in(written) if not each.is_commit for offset in each.offsets}
    return [
        record
        for batch in written
        if batch.base_offset not in aborted
        for record in batch.records
        if start_offset <= record.offset < stable_offset
    ]
