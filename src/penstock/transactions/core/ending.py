"""How transactions end: as their clients wish, or against it.

Version 2 gives the client another epoch with every end, and the markers carry it: whatever comes late has an epoch that
is over. In version 1 nothing tells a late EndTxn from the one for the next transaction but the connection that it comes
on. A client uses connections one after another, so what comes on one that is older than the newest that the transaction
was used on was sent before that transaction began. A client that means it sends it again, on a new connection.
"""

from __future__ import annotations

from penstock.errors import Problem
from penstock.transactions.core.answers import NEEDS_PRODUCER_ID, AbortAnswer, ProducerAnswer
from penstock.transactions.core.checks import is_possible_id
from penstock.transactions.core.draft import Draft
from penstock.transactions.core.events import AbortTransaction, EndTransaction, MarkersWritten
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Ending, Producer, Transaction

_TIMEOUTS_PER_STEP = 32
"""Each writes all partitions of its transaction again; the others are due at once, too."""


def end(state: TransactionsState, event: EndTransaction, draft: Draft) -> ProducerAnswer:
    if not is_possible_id(event.transactional_id):
        return ProducerAnswer(Problem.INVALID_REQUEST)
    found = state.find(event.transactional_id)
    if found is None:
        return ProducerAnswer(Problem.INVALID_PRODUCER_ID_MAPPING)
    bumps = event.transaction_version >= 2
    if event.producer != found.producer or not event.producer.is_for_clients:
        if bumps and event.producer == found.previous and found.has_ended:
            return _repeated(found, event)
        is_known = event.producer.id == found.producer.id
        return ProducerAnswer(Problem.PRODUCER_FENCED if is_known else Problem.INVALID_PRODUCER_ID_MAPPING)
    if event.commit and found.claim is not None:
        # Only together with all of its batch.
        return ProducerAnswer(Problem.INVALID_TXN_STATE)
    if found.is_ongoing:
        if bumps:
            return _end_with_next_epoch(found, event, draft)
        if event.connection < state.oldest_connection(event.transactional_id):
            return ProducerAnswer(Problem.TRANSACTION_OVERTAKEN)
        prepared = found.prepared(event.commit, found.producer, None, Ending(found.producer, 1), draft.now_ms)
        draft.write(event.transactional_id, prepared)
        return ProducerAnswer(None, found.producer)
    if not bumps:
        return _repeated(found, event)
    if found.is_prepared:
        # The client has its answer, and with it this epoch: it is the next transaction that it ends.
        return ProducerAnswer(Problem.CONCURRENT_TRANSACTIONS)
    return _end_empty(found, event, draft)


def _repeated(found: Transaction, event: EndTransaction) -> ProducerAnswer:
    """Nothing is to be decided. The same end is answered the same, when it is finished."""
    if not found.has_ended_with(event.commit):
        return ProducerAnswer(Problem.INVALID_TXN_STATE)
    if found.is_prepared:
        return ProducerAnswer(Problem.CONCURRENT_TRANSACTIONS)
    if not found.producer.is_for_clients:
        return ProducerAnswer(Problem.PRODUCER_FENCED)
    return ProducerAnswer(None, found.producer)


def _end_with_next_epoch(found: Transaction, event: EndTransaction, draft: Draft) -> ProducerAnswer:
    producer = found.producer.next(event.fresh_producer_id)
    if producer is None:
        return NEEDS_PRODUCER_ID
    ending = Ending(found.producer.fencing, 2)
    prepared = found.prepared(event.commit, producer, found.producer, ending, draft.now_ms)
    draft.write(event.transactional_id, prepared)
    return ProducerAnswer(None, producer)


def _end_empty(found: Transaction, event: EndTransaction, draft: Draft) -> ProducerAnswer:
    """In version 2 a client does not know whether its first batch arrived anywhere: it may abort nothing at all."""
    if event.commit:
        return ProducerAnswer(Problem.INVALID_TXN_STATE)
    producer = found.producer.next(event.fresh_producer_id)
    if producer is None:
        return NEEDS_PRODUCER_ID
    draft.write(event.transactional_id, found.ended_empty(producer, draft.now_ms))
    return ProducerAnswer(None, producer)


def fence(found: Transaction, now_ms: int, asked_by: Producer | None = None) -> Transaction:
    """Aborts what is ongoing, and whoever had the epoch has lost it. `asked_by`: unless it was the client itself."""
    fencing = found.producer.fencing
    return found.prepared(False, fencing, asked_by, Ending(fencing, 2), now_ms)


def abort(state: TransactionsState, event: AbortTransaction, draft: Draft) -> AbortAnswer:
    found = state.find(event.transactional_id)
    if found is None:
        return AbortAnswer(Problem.TRANSACTIONAL_ID_NOT_FOUND)
    if found.is_prepared:
        return AbortAnswer(Problem.CONCURRENT_TRANSACTIONS)
    if not found.is_ongoing or event.producer not in (None, found.producer):
        return AbortAnswer(Problem.INVALID_TXN_STATE)
    draft.write(event.transactional_id, fence(found, draft.now_ms))
    return AbortAnswer(None)


def abort_late(state: TransactionsState, draft: Draft) -> None:
    """Transactions whose clients took longer than they had said."""
    for transactional_id in state.timeouts.first_due(draft.now_ms, _TIMEOUTS_PER_STEP):
        draft.write(transactional_id, fence(state.stored[transactional_id], draft.now_ms))


def complete(state: TransactionsState, event: MarkersWritten, draft: Draft) -> None:
    found = state.find(event.transactional_id)
    if found is not None and found.is_prepared and found.ends == event.ends:
        draft.write(event.transactional_id, found.completed(draft.now_ms))
