"""Small appends of one log, kept for the next journal entry. Runs on the event loop's thread."""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.core.journal_entry import Piece
from penstock.storage.segment import Segment
from penstock.storage.state import LogState
from penstock.units import KIB

# Above this a copy and a second write cost more than the sync that they save.
STAGED_BATCH_BYTES = 16 * KIB
# Of one log in one entry. A log that brings more between two commits keeps the disk busy enough by itself.
STAGED_BYTES = 64 * KIB


class Stage:
    """Every byte of the log from `base_offset`, at `position` of the segment, to its end: whole or not at all."""

    __slots__ = ("base_offset", "batches", "position", "segment", "size")

    def __init__(self, segment: Segment, base_offset: int) -> None:
        self.segment = segment
        self.position = segment.size
        self.base_offset = base_offset
        self.batches: list[bytes] = []
        self.size = 0

    def add(self, batch: memoryview, size: int) -> bool:
        """A copy of what was just appended. False if it does not fit: then the stage is worth nothing any more."""
        if size > STAGED_BATCH_BYTES or self.size + size > STAGED_BYTES:
            return False
        self.batches.append(bytes(batch))
        self.size += size
        return True


class Taken(NamedTuple):
    """What a journal entry has of a log, and what is durable once it is on disk."""

    log: LogState
    piece: Piece
    end_offset: int
    appended_bytes: int
    truncations: int


def begin_stage(log: LogState) -> None:
    """A sync of the files has begun and covers the log as it is: what is appended from now on may be journaled."""
    if log.stage is None and log.share is not None and log.active is not None and log.settings.flush_policy == "acked":
        log.stage = Stage(log.active, log.end_offset)


def renew_stage(log: LogState) -> None:
    """A sync of the files has ended that covers all that is staged: the journal need not have it too."""
    if log.stage is not None and log.stage.batches and log.synced_offset == log.end_offset:
        log.stage = Stage(log.stage.segment, log.end_offset)


def staged_bytes(log: LogState) -> int:
    """How much one journal entry needs of it to make the log durable up to its end; 0 if it cannot, or is not needed.

    The stage must begin where the log is durable already, in a segment whose name is.
    """
    stage = log.stage
    if stage is None or not stage.base_offset <= log.durable_offset < log.end_offset:
        return 0
    if not log.commit.names_are_synced:
        return 0
    return stage.size if log.failure is None and log.settings.flush_policy == "acked" else 0


def take_stage(log: LogState) -> Taken:
    """For a log with `staged_bytes`. What comes from now on is for the entry after this one."""
    stage, share = log.stage, log.share
    assert stage is not None and share is not None
    segment = stage.segment
    piece = Piece(
        share.topic_id,
        share.partition,
        segment.base_offset,
        segment.generation,
        stage.position,
        stage.base_offset,
        b"".join(stage.batches),
    )
    log.stage = Stage(segment, log.end_offset)
    return Taken(log, piece, log.end_offset, log.appended_bytes, log.truncations)


def settle_stage(taken: Taken) -> None:
    """It is on disk in the journal."""
    log = taken.log
    if log.failure is None and log.truncations == taken.truncations and taken.end_offset > log.durable_offset:
        log.durable_offset = taken.end_offset
        log.durable_bytes = taken.appended_bytes
