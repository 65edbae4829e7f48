"""A task of a query gets a transaction to write in.

Transactions are used again, under the next epoch, when what was written in them is over: there are as many as a query
has tasks at a time, however many batches it writes, and the logs have as many producers to remember.
"""

from __future__ import annotations

from penstock.errors import Problem, Refused
from penstock.transactions.core.draft import Draft
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.query import Claim
from penstock.transactions.core.query_answers import AttemptAnswer
from penstock.transactions.core.query_events import OpenAttempt
from penstock.transactions.core.query_runs import admitted
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Producer, Transaction, TransactionState
from penstock.wire.query_ids import attempt_id

_NEEDS_PRODUCER_ID = AttemptAnswer(None, needs_producer_id=True)


def open_attempt(
    state: TransactionsState, event: OpenAttempt, limits: TransactionLimits, draft: Draft
) -> AttemptAnswer:
    if not 0 < event.timeout_ms <= limits.max_timeout_ms:
        text = f"the transaction's timeout must be from 1 to {limits.max_timeout_ms} ms (transaction.max.timeout.ms)"
        return AttemptAnswer(Problem.INVALID_TRANSACTION_TIMEOUT, text)
    query = admitted(state, event, limits, draft.now_ms, once=event.once)
    if isinstance(query, Refused):
        return AttemptAnswer.refusing(query)
    if event.batch_id <= query.batch_id:
        # Whoever asks for an old batch has nothing to write, and replaces nobody: a newer one may be under way.
        return AttemptAnswer(None, is_committed=True)
    answer = _claim(state, event, limits, draft)
    if answer.problem is not None or answer.needs_producer_id:
        return answer
    if query is not state.queries.get(event.query):
        draft.write_query(event.query, query)
    return answer


def _claim(state: TransactionsState, event: OpenAttempt, limits: TransactionLimits, draft: Draft) -> AttemptAnswer:
    transactional_id, found = state.free_attempt(event.query)
    producer: Producer | None
    if found is None:
        if len(state.stored) >= limits.max_ids:
            return AttemptAnswer(Problem.POLICY_VIOLATION, f"there are {limits.max_ids} transactional ids here already")
        if event.fresh_producer_id < 0:
            return _NEEDS_PRODUCER_ID
        # No other id has this number, so none has this name.
        transactional_id = attempt_id(event.query, event.fresh_producer_id)
        producer = Producer(event.fresh_producer_id, 0)
    else:
        producer = found.producer.next(event.fresh_producer_id)
        if producer is None:
            return _NEEDS_PRODUCER_ID
    draft.write(
        transactional_id,
        Transaction(
            producer,
            TransactionState.EMPTY,
            event.timeout_ms,
            draft.now_ms,
            ends=0 if found is None else found.ends,
            claim=Claim(event.query, event.run, event.batch_id),
        ),
    )
    return AttemptAnswer(None, transactional_id=transactional_id, producer=producer)
