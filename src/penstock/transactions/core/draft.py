"""A decision in the making."""

from __future__ import annotations

from penstock.replication.core.machine import Answered, Decision
from penstock.transactions.core.answers import TransactionAnswer
from penstock.transactions.core.orders import WriteMarkers, markers_of
from penstock.transactions.core.records import TransactionRecord
from penstock.transactions.core.transaction import Transaction
from penstock.transactions.core.volatile import Note

TransactionDecision = Decision[TransactionRecord, TransactionAnswer, Note]


class Draft:
    """Collects what one event leads to."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._records: list[TransactionRecord] = []
        self._notes: list[Note] = []
        self._orders: list[WriteMarkers] = []

    def write(self, transactional_id: str, transaction: Transaction | None) -> None:
        """None: it is forgotten. What is prepared is ordered: none of it can be without its markers."""
        self._records.append(TransactionRecord(transactional_id, transaction))
        if transaction is not None and (order := markers_of(transactional_id, transaction)) is not None:
            self._orders.append(order)

    def note(self, note: Note) -> None:
        self._notes.append(note)

    def decision(self, answer: TransactionAnswer) -> TransactionDecision:
        return Decision(
            answer=Answered(answer),
            records=tuple(self._records),
            notes=tuple(self._notes),
            orders=tuple(self._orders),
        )
