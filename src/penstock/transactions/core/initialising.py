"""InitProducerId: a client takes a transactional id over, or goes on with it after an error (KIP-360)."""

from __future__ import annotations

from penstock.errors import Problem
from penstock.transactions.core.answers import NEEDS_PRODUCER_ID, ProducerAnswer
from penstock.transactions.core.checks import is_possible_id
from penstock.transactions.core.draft import Draft
from penstock.transactions.core.ending import fence
from penstock.transactions.core.events import InitProducerId
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Producer, Transaction, TransactionState
from penstock.transactions.core.volatile import UsedOn
from penstock.wire.query_ids import is_attempt_id


def initialise(
    state: TransactionsState, event: InitProducerId, limits: TransactionLimits, draft: Draft
) -> ProducerAnswer:
    if not is_possible_id(event.transactional_id) or (event.producer_id < 0) != (event.producer_epoch < 0):
        return ProducerAnswer(Problem.INVALID_REQUEST)
    if is_attempt_id(event.transactional_id):
        # Nobody may choose one: whoever writes for a query is given one (query_attempts.py).
        return ProducerAnswer(Problem.INVALID_REQUEST)
    if not 0 < event.timeout_ms <= limits.max_timeout_ms:
        return ProducerAnswer(Problem.INVALID_TRANSACTION_TIMEOUT)
    found = state.find(event.transactional_id)
    if found is not None:
        return _take_over(found, event, draft)
    if len(state.stored) >= limits.max_ids:
        return ProducerAnswer(Problem.POLICY_VIOLATION)
    if event.fresh_producer_id < 0:
        return NEEDS_PRODUCER_ID
    # Also if the client names one that it had: the id has expired, and nobody else has taken it.
    producer = Producer(event.fresh_producer_id, 0)
    return _initialised(Transaction(producer, TransactionState.EMPTY, event.timeout_ms, draft.now_ms), event, draft)


def _take_over(found: Transaction, event: InitProducerId, draft: Draft) -> ProducerAnswer:
    """A client that names what it had must be the one that has the id now, or has not heard yet that it has.

    Kafka lets one with an older epoch abort the transaction of the one that fenced it; here it gets nothing done.
    """
    given = Producer(event.producer_id, event.producer_epoch) if event.producer_id >= 0 else None
    if given is not None and given not in (found.producer, found.previous):
        return ProducerAnswer(Problem.PRODUCER_FENCED)
    if found.is_prepared:
        return ProducerAnswer(Problem.CONCURRENT_TRANSACTIONS)
    if found.is_ongoing:
        draft.write(event.transactional_id, fence(found, draft.now_ms, asked_by=given))
        return ProducerAnswer(Problem.CONCURRENT_TRANSACTIONS)
    if given is not None and given == found.previous and found.producer.is_for_clients:
        # The answer to the same question, or to its EndTxn, was lost: it is given again.
        producer: Producer | None = found.producer
    else:
        producer = found.producer.next(event.fresh_producer_id)
    if producer is None:
        return NEEDS_PRODUCER_ID
    return _initialised(found.initialised(producer, given, event.timeout_ms, draft.now_ms), event, draft)


def _initialised(transaction: Transaction, event: InitProducerId, draft: Draft) -> ProducerAnswer:
    draft.write(event.transactional_id, transaction)
    # Nobody has sent anything as this producer yet, and the connection of another client may be an older one.
    draft.note(UsedOn(event.transactional_id, 0))
    return ProducerAnswer(None, transaction.producer)
