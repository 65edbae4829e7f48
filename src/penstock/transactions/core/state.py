"""All that one transactions machine knows: the durable transactions, and beside them what is volatile."""

from __future__ import annotations

from penstock.replication.core.deadlines import Deadlines
from penstock.transactions.core.records import TransactionRecord
from penstock.transactions.core.transaction import Transaction
from penstock.transactions.core.volatile import Volatile


class TransactionsState:
    """`stored` and `timeouts` are a function of the records alone. Everything else is in `volatile`."""

    def __init__(self, began: int) -> None:
        self._began = began
        self.stored: dict[str, Transaction] = {}
        self.timeouts: Deadlines[str] = Deadlines()
        self.volatile = Volatile()

    def find(self, transactional_id: str) -> Transaction | None:
        return self.stored.get(transactional_id)

    def apply(self, record: TransactionRecord) -> None:
        transactional_id, transaction = record.transactional_id, record.value
        if transaction is None:
            self.stored.pop(transactional_id, None)
            self.timeouts.disarm(transactional_id)
            self.volatile.used_on.pop(transactional_id, None)
            return
        self.stored[transactional_id] = transaction
        if (deadline_ms := transaction.deadline_ms) is None:
            self.timeouts.disarm(transactional_id)
        else:
            self.timeouts.arm(transactional_id, deadline_ms)

    def oldest_connection(self, transactional_id: str) -> int:
        """On which a client of version 1 may use its transaction, or begin one.

        Where it did so last nobody knows after a replay, only that it was before that.
        """
        return self.volatile.used_on.get(transactional_id, self._began)
