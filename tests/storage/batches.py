"""Batches for log tests, and reading a log back in full."""

from __future__ import annotations

from penstock.storage.log import Appended, Log
from penstock.wire.batch import HEADER_BYTES, BatchHeader, crc_matches, read_header
from penstock.wire.records import Record, build_batch

NOW_MS = 1_700_000_000_000


def batch_of(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> memoryview:
    records = [Record(place, timestamp_ms, None, value) for place, value in enumerate(values)]
    return memoryview(
        build_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    )


def append(log: Log, batch: memoryview, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> Appended:
    return log.append(batch, read_header(batch), leader_epoch=leader_epoch, now_ms=now_ms)


def sync(log: Log) -> None:
    ticket = log.begin_sync()
    if ticket is not None:
        ticket.run()
        log.finish_sync(ticket)


def bytes_at(log: Log, offset: int, *, max_bytes: int = 2**20, upto: int | None = None) -> bytes:
    piece = log.read(offset, max_bytes, upto=log.end_offset if upto is None else upto, at_least_one=True)
    data = piece.cached()
    return bytes(piece.load() if data is None else data)


def headers_in(data: bytes) -> list[BatchHeader]:
    """Every batch whole and sound, or the test fails here."""
    headers = []
    position = 0
    while position < len(data):
        assert position + HEADER_BYTES <= len(data)
        header = read_header(data, position)
        assert crc_matches(data[position : position + header.size], header)
        headers.append(header)
        position += header.size
    return headers


def contents(log: Log, start: int | None = None) -> dict[int, bytes]:
    """Base offset and bytes of all batches."""
    found = {}
    offset = log.start_offset if start is None else start
    while offset < log.end_offset:
        data = bytes_at(log, offset)
        assert data, f"nothing at offset {offset}, but the log ends at {log.end_offset}"
        position = 0
        for header in headers_in(data):
            found[header.base_offset] = data[position : position + header.size]
            position += header.size
            offset = header.next_offset
    return found
