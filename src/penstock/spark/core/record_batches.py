"""Which batches of a Fetch answer hold records that a reader may see, and where it goes on. Headers alone are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import PenstockError, Problem
from penstock.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, read_header
from penstock.wire.control import read_marker
from penstock.wire.fetched import AbortedTransaction

_MAGIC_AT = 16
_LAST_OFFSET = 2**63 - 1


class Walk(NamedTuple):
    # Where each batch lies in the answer.
    batches: list[tuple[BatchHeader, int, int]]
    # The offset to be read next; all before it was in the answer, or is nowhere.
    next_offset: int


def walk(records: memoryview, position: int, end: int, aborted: Sequence[AbortedTransaction] | None) -> Walk:
    """The batches with records in [position, end), without control batches and what was aborted.

    `aborted` is the answer's list, None to see everything. A last batch that was cut off is left out. Raises
    PenstockError for bytes that are no batches; CRCs are not checked.
    """
    batches: list[tuple[BatchHeader, int, int]] = []
    waiting = sorted(aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    # Producers whose transaction, where the walk is, will be aborted.
    aborting: set[int] = set()
    at, size, next_offset = 0, len(records), position
    while at + HEADER_BYTES <= size and next_offset < end:
        header = read_header(records, at)
        behind = at + header.size
        if header.magic != MAGIC or header.size < HEADER_BYTES:
            raise _no_batch(records, at, next_offset)
        if behind > size:
            break
        if not 0 <= header.base_offset <= header.last_offset < _LAST_OFFSET:
            raise PenstockError(Problem.CORRUPT_RECORDS, f"a batch at offset {header.base_offset} ends before itself")
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborting.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and _is_abort(records[at:behind]):
                aborting.discard(header.producer_id)
        elif (
            header.last_offset >= position
            and header.base_offset < end
            and not (header.is_transactional and header.producer_id in aborting)
        ):
            batches.append((header, at, behind))
        next_offset = max(next_offset, header.next_offset)
        at = behind
    return Walk(batches, min(next_offset, end))


def _is_abort(batch: memoryview) -> bool:
    marker = read_marker(batch)
    return marker is not None and not marker.is_commit


def _no_batch(records: memoryview, at: int, next_offset: int) -> PenstockError:
    magic = records[at + _MAGIC_AT]
    if magic < MAGIC:
        text = f"offset {next_offset} is stored in record format {magic}, which is too old to be read here"
        return PenstockError(Problem.UNSUPPORTED_RECORD_FORMAT, text)
    return PenstockError(Problem.CORRUPT_RECORDS, f"what follows offset {next_offset} is no batch")
