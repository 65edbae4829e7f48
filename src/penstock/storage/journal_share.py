"""What one log knows of the journal that it shares with all others of its node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from penstock.storage.core.replay import JournaledPiece


class JournalShare:
    """`next_sequence` and `raise_sequence` are the journal's own.

    `journaled` is what it had of this log at start; the recovery of the log takes it, and it is kept no longer.
    `has_some`: it may have something of this partition, perhaps of a log that was there before this one.
    """

    def __init__(
        self,
        topic_id: UUID,
        partition: int,
        journaled: Sequence[JournaledPiece],
        has_some: bool,
        next_sequence: Callable[[], int],
        raise_sequence: Callable[[int], None],
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.journaled = journaled
        self.has_some = has_some
        self.next_sequence = next_sequence
        self.raise_sequence = raise_sequence
