"""What the journal has of one log, batch by batch, for the recovery of that log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.storage.core.journal_entry import Piece
from penstock.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, read_header

ANY_EPOCH = -1


class JournaledPiece(NamedTuple):
    sequence: int
    piece: Piece


class Replay:
    """Pieces from before `void_below` do not count: the log was truncated or checkpointed since."""

    def __init__(self, journaled: Iterable[JournaledPiece] = (), void_below: int = 0) -> None:
        # By place: where the log ended when the batch was written there, and the batch.
        self._batches: dict[tuple[int, int, int], tuple[int, memoryview]] = {}
        for _, piece in sorted((each for each in journaled if each.sequence >= void_below), key=_sequence):
            for position, end_offset, batch in _split(piece):
                self._batches[piece.segment_base_offset, piece.generation, position] = end_offset, batch

    def __bool__(self) -> bool:
        return bool(self._batches)

    def run_from(
        self, segment_base_offset: int, generation: int, position: int, expected_offset: int, epoch: int = ANY_EPOCH
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches that were written there, one behind the other, when the log ended at that offset in that epoch.

        A follower's may begin behind that, where its leader's log was compacted.
        """
        while (found := self._batches.get((segment_base_offset, generation, position))) is not None:
            end_offset, batch = found
            header = read_header(batch)
            if end_offset != expected_offset or header.base_offset < end_offset or header.leader_epoch < epoch:
                return
            if not crc_matches(batch, header):
                return
            yield header, batch
            position += header.size
            expected_offset, epoch = header.next_offset, header.leader_epoch


def _split(piece: Piece) -> Iterator[tuple[int, int, memoryview]]:
    """Position, where the log ended before it, and bytes of each batch; ends at what is no batch."""
    view = memoryview(piece.data)
    at, end_offset = 0, piece.base_offset
    while len(view) - at >= HEADER_BYTES:
        header = read_header(view, at)
        if header.magic != MAGIC or not HEADER_BYTES <= header.size <= len(view) - at or header.last_offset_delta < 0:
            return
        yield piece.position + at, end_offset, view[at : at + header.size]
        at, end_offset = at + header.size, header.next_offset


def _sequence(journaled: JournaledPiece) -> int:
    return journaled.sequence
