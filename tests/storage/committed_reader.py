"""Reading a log as clients at read_committed do, with the aborted transactions that they are told of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.storage.batches import headers_in

from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.log import Log
from penstock.units import MIB
from penstock.wire.batch import BatchHeader
from penstock.wire.control import Marker, read_marker
from penstock.wire.records import Record, records_of


class Batch(NamedTuple):
    header: BatchHeader
    data: bytes


def split(data: bytes) -> Iterator[Batch]:
    position = 0
    for header in headers_in(data):
        yield Batch(header, data[position : position + header.size])
        position += header.size


def marker_in(batch: Batch) -> Marker | None:
    return read_marker(batch.data) if batch.header.is_control else None


def committed_records(log: Log, stable_offset: int, *, start: int, max_bytes: int) -> list[Record]:
    """What a consumer gets that begins at `start`, whichever way it heeds what it is told."""
    offset = start
    found: list[Record] = []
    while offset < stable_offset:
        piece = log.read(offset, max_bytes, upto=stable_offset, at_least_one=True)
        data = piece.cached()
        batches = list(split(bytes(piece.load() if data is None else data)))
        if not batches:
            break
        end = batches[-1].header.next_offset
        aborted = log.aborted.rows.overlapping(offset, end)
        kept = _by_offset(batches, aborted)
        assert kept == _by_marker(batches, aborted)
        for batch in kept:
            found += [record for record in records_of(batch.data, limit_bytes=MIB) if record.offset >= offset]
        offset = end
    return found


def _by_offset(batches: list[Batch], aborted: list[AbortedTransaction]) -> list[Batch]:
    """As the Java client and librdkafka do: a transaction of the list begins at its first offset."""
    waiting = sorted(aborted, key=lambda row: row.first_offset, reverse=True)
    producers: set[int] = set()
    kept = []
    for batch in batches:
        while waiting and waiting[-1].first_offset <= batch.header.last_offset:
            producers.add(waiting.pop().producer_id)
        if batch.header.is_control:
            marker = marker_in(batch)
            if marker is not None and not marker.is_commit:
                producers.discard(batch.header.producer_id)
        elif not batch.header.is_transactional or batch.header.producer_id not in producers:
            kept.append(batch)
    return kept


def _by_marker(batches: list[Batch], aborted: list[AbortedTransaction]) -> list[Batch]:
    """As franz-go does: each abort marker ends the producer's next transaction of the list, wherever that begins."""
    firsts: dict[int, list[int]] = {}
    for row in sorted(aborted, key=lambda row: row.first_offset):
        firsts.setdefault(row.producer_id, []).append(row.first_offset)
    kept = []
    for batch in batches:
        header = batch.header
        of_producer = firsts.get(header.producer_id, [])
        if header.is_control:
            marker = marker_in(batch)
            if marker is not None and not marker.is_commit:
                del of_producer[:1]
        elif not (header.is_transactional and of_producer and header.base_offset >= of_producer[0]):
            kept.append(batch)
    return kept
