"""What the machine has done elsewhere."""

from __future__ import annotations

from msgspec import Struct

from penstock.transactions.core.transaction import Ending, TopicPartitions, Transaction, TransactionState


class WriteMarkers(Struct, frozen=True):
    """To all these partitions; then the machine is to be told with `MarkersWritten`, which names `ends` again."""

    transactional_id: str
    ends: int
    ending: Ending
    commit: bool
    topics: tuple[TopicPartitions, ...]


def markers_of(transactional_id: str, transaction: Transaction) -> WriteMarkers | None:
    """None if it is not prepared."""
    if transaction.ending is None:
        return None
    commit = transaction.state is TransactionState.PREPARE_COMMIT
    return WriteMarkers(transactional_id, transaction.ends, transaction.ending, commit, transaction.topics)
