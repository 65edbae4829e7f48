"""What the journal has of one log, batch by batch, for the recovery of that log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.storage.core.journal_entry import Piece
from penstock.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, read_header


class JournaledPiece(NamedTuple):
    sequence: int
    piece: Piece


class Replay:
    """Pieces from before `void_below` do not count: the log was truncated or checkpointed since."""

    def __init__(self, journaled: Iterable[JournaledPiece] = (), void_below: int = 0) -> None:
        self._batches: dict[tuple[int, int, int], memoryview] = {}
        for _, piece in sorted((each for each in journaled if each.sequence >= void_below), key=_sequence):
            for position, batch in _split(piece):
                self._batches[piece.segment_base_offset, piece.generation, position] = batch

    def __bool__(self) -> bool:
        return bool(self._batches)

    def run_from(
        self, segment_base_offset: int, generation: int, position: int, expected_offset: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches that were written there, one behind the other; none if another offset is expected there."""
        while (batch := self._batches.get((segment_base_offset, generation, position))) is not None:
            header = read_header(batch)
            if header.base_offset != expected_offset or not crc_matches(batch, header):
                return
            yield header, batch
            position += header.size
            expected_offset = header.next_offset


def _split(piece: Piece) -> Iterator[tuple[int, memoryview]]:
    """Position and bytes of each batch; ends at what is no batch."""
    view = memoryview(piece.data)
    at = 0
    while len(view) - at >= HEADER_BYTES:
        header = read_header(view, at)
        if header.magic != MAGIC or not HEADER_BYTES <= header.size <= len(view) - at or header.last_offset_delta < 0:
            return
        yield piece.position + at, view[at : at + header.size]
        at += header.size


def _sequence(journaled: JournaledPiece) -> int:
    return journaled.sequence
