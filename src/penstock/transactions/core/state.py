"""All that one transactions machine knows: the durable transactions, and beside them what is volatile."""

from __future__ import annotations

from penstock.replication.core.deadlines import Deadlines
from penstock.transactions.core.query import Claim, Query
from penstock.transactions.core.records import QueryRecord, StateRecord
from penstock.transactions.core.transaction import Transaction
from penstock.transactions.core.volatile import Volatile

_AT_ONCE_MS = 0


class TransactionsState:
    """A function of the records alone, in whatever order those of different keys come. Only `volatile` is not."""

    def __init__(self, began: int) -> None:
        self._began = began
        self.stored: dict[str, Transaction] = {}
        self.timeouts: Deadlines[str] = Deadlines()
        self.queries: dict[str, Query] = {}
        # By query: its transactional ids, and which of them may be used again.
        self.attempts: dict[str, set[str]] = {}
        self._free: dict[str, dict[str, None]] = {}
        self.volatile = Volatile()

    def find(self, transactional_id: str) -> Transaction | None:
        return self.stored.get(transactional_id)

    def is_over(self, claim: Claim) -> bool:
        query = self.queries.get(claim.query)
        return query is None or query.is_over(claim)

    def free_attempt(self, query: str) -> tuple[str, Transaction | None]:
        """A transaction of the query that nobody uses; None: there is none."""
        for transactional_id in self._free.get(query, ()):
            return transactional_id, self.stored[transactional_id]
        return "", None

    def apply(self, record: StateRecord) -> None:
        if isinstance(record, QueryRecord):
            self._apply_query(record.query, record.value)
        elif record.value is None:
            self._forget(record.transactional_id)
        else:
            self.stored[record.transactional_id] = record.value
            self._place(record.transactional_id, record.value)

    def _apply_query(self, name: str, query: Query | None) -> None:
        if query is None:
            self.queries.pop(name, None)
        else:
            self.queries[name] = query
        for transactional_id in self.attempts.get(name, ()):
            self._place(transactional_id, self.stored[transactional_id])

    def _place(self, transactional_id: str, transaction: Transaction) -> None:
        """Where it counts by how it stands now."""
        claim, deadline_ms = transaction.claim, transaction.deadline_ms
        if claim is not None:
            self.attempts.setdefault(claim.query, set()).add(transactional_id)
            is_over = self.is_over(claim)
            if deadline_ms is not None and is_over:
                deadline_ms = _AT_ONCE_MS
            free = self._free.setdefault(claim.query, {})
            if transaction.is_ongoing or transaction.is_prepared or not (is_over or transaction.has_ended):
                free.pop(transactional_id, None)
            else:
                free[transactional_id] = None
        if deadline_ms is None:
            self.timeouts.disarm(transactional_id)
        else:
            self.timeouts.arm(transactional_id, deadline_ms)

    def _forget(self, transactional_id: str) -> None:
        transaction = self.stored.pop(transactional_id, None)
        self.timeouts.disarm(transactional_id)
        self.volatile.used_on.pop(transactional_id, None)
        if transaction is not None and transaction.claim is not None:
            query = transaction.claim.query
            self._free[query].pop(transactional_id, None)
            self.attempts[query].discard(transactional_id)
            if not self.attempts[query]:
                del self.attempts[query], self._free[query]

    def oldest_connection(self, transactional_id: str) -> int:
        """On which a client of version 1 may use its transaction, or begin one.

        Where it did so last nobody knows after a replay, only that it was before that.
        """
        return self.volatile.used_on.get(transactional_id, self._began)
