"""Batches as another replica sent them, checked as a producer's are but for what a leader has checked before."""

from __future__ import annotations

from penstock.errors import PenstockError, Problem
from penstock.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, crc_of, read_header


def received_batches(records: memoryview) -> list[BatchHeader]:
    """The headers of all whole batches, in order; a last one that was cut off is left out. Raises PenstockError."""
    headers: list[BatchHeader] = []
    at, size, next_offset = 0, len(records), 0
    while at + HEADER_BYTES <= size:
        header = read_header(records, at)
        end = at + header.size
        if header.magic != MAGIC or header.size < HEADER_BYTES or header.last_offset_delta < 0:
            raise PenstockError(Problem.CORRUPT_RECORDS, f"what follows offset {next_offset} is no batch")
        if end > size:
            break
        if header.base_offset < next_offset or header.leader_epoch < 0:
            text = f"offset {header.base_offset} of epoch {header.leader_epoch} cannot follow offset {next_offset}"
            raise PenstockError(Problem.CORRUPT_RECORDS, text)
        if crc_of(records[at:end]) != header.crc:
            text = f"the batch at offset {header.base_offset} does not match its CRC: it changed on its way here"
            raise PenstockError(Problem.CORRUPT_RECORDS, text)
        headers.append(header)
        at, next_offset = end, header.next_offset
    return headers
