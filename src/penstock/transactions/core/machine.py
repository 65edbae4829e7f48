"""The state machine behind one partition of __transaction_state: all transactional ids and queries that hash to it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.replication.core.machine import Tick
from penstock.transactions.core.adding import add, verify
from penstock.transactions.core.answers import Done
from penstock.transactions.core.draft import Draft, TransactionDecision
from penstock.transactions.core.ending import abort, abort_late, complete, end
from penstock.transactions.core.events import (
    AbortTransaction,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    VerifyPartitions,
)
from penstock.transactions.core.expiry import expire
from penstock.transactions.core.initialising import initialise
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.listing import describe, list_transactions
from penstock.transactions.core.orders import WriteMarkers, markers_of
from penstock.transactions.core.query_attempts import open_attempt
from penstock.transactions.core.query_batches import abort_batch, commit_batch
from penstock.transactions.core.query_events import AbortBatch, CommitBatch, OpenAttempt, QueryEvent
from penstock.transactions.core.records import StateRecord
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.volatile import Note

ClientEvent = InitProducerId | AddPartitions | VerifyPartitions | EndTransaction
AdministrationEvent = AbortTransaction | ListTransactions | DescribeTransaction
TransactionEvent = ClientEvent | QueryEvent | AdministrationEvent | MarkersWritten | Tick


class TransactionsMachine:
    """A `Machine`; replication/core/machine.py says how a runner uses it. Its orders are `WriteMarkers`."""

    def __init__(self, limits: TransactionLimits, began: int = 0) -> None:
        """`began` is in the order of the connections: those with lower numbers were there before."""
        self._limits = limits
        self.state = TransactionsState(began)

    def apply(self, record: StateRecord) -> None:
        self.state.apply(record)

    def remember(self, note: Note) -> None:
        self.state.volatile.remember(note)

    def next_deadline_ms(self) -> int | None:
        timeout_ms, expiry_ms = self.state.timeouts.next_ms(), self.state.volatile.expiry_ms
        return expiry_ms if timeout_ms is None else min(timeout_ms, expiry_ms)

    def open_orders(self) -> Iterator[WriteMarkers]:
        """Everything that was ordered and is not known to be done."""
        for transactional_id, transaction in self.state.stored.items():
            if (order := markers_of(transactional_id, transaction)) is not None:
                yield order

    def decide(self, event: TransactionEvent, now_ms: int) -> TransactionDecision:
        draft = Draft(now_ms)
        return draft.decision(self._answer(event, draft))

    def _answer(self, event: TransactionEvent, draft: Draft) -> MachineAnswer:
        state = self.state
        match event:
            case InitProducerId():
                return initialise(state, event, self._limits, draft)
            case AddPartitions():
                return add(state, event, self._limits, draft)
            case VerifyPartitions():
                return verify(state, event)
            case EndTransaction():
                return end(state, event, draft)
            case OpenAttempt():
                return open_attempt(state, event, self._limits, draft)
            case CommitBatch():
                return commit_batch(state, event, self._limits, draft)
            case AbortBatch():
                return abort_batch(state, event, self._limits, draft)
            case MarkersWritten():
                complete(state, event, draft)
                return Done()
            case AbortTransaction():
                return abort(state, event, draft)
            case ListTransactions():
                return list_transactions(state, event, draft.now_ms)
            case DescribeTransaction():
                return describe(state, event)
            case Tick():
                abort_late(state, draft)
                if state.volatile.expiry_ms <= draft.now_ms:
                    expire(state, self._limits, draft)
                return Done()
