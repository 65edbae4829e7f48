"""A decision in the making."""

from __future__ import annotations

from penstock.replication.core.machine import Answered, Decision
from penstock.transactions.core.orders import WriteMarkers, markers_of
from penstock.transactions.core.query import Query
from penstock.transactions.core.records import QueryRecord, StateRecord, TransactionRecord
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import Transaction
from penstock.transactions.core.volatile import Note

TransactionDecision = Decision[StateRecord, MachineAnswer, Note]


class Draft:
    """Collects what one event leads to."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._records: list[StateRecord] = []
        self._notes: list[Note] = []
        self._orders: list[WriteMarkers] = []

    def write(self, transactional_id: str, transaction: Transaction | None) -> None:
        """None: it is forgotten. What is prepared is ordered: none of it can be without its markers."""
        self._records.append(TransactionRecord(transactional_id, transaction))
        if transaction is not None and (order := markers_of(transactional_id, transaction)) is not None:
            self._orders.append(order)

    def write_query(self, query: str, value: Query | None) -> None:
        self._records.append(QueryRecord(query, value))

    def note(self, note: Note) -> None:
        self._notes.append(note)

    def decision(self, answer: MachineAnswer) -> TransactionDecision:
        return Decision(
            answer=Answered(answer),
            records=tuple(self._records),
            notes=tuple(self._notes),
            orders=tuple(self._orders),
        )
