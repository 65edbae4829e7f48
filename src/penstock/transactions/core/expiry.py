"""Transactional ids and queries that nobody uses any more."""

from __future__ import annotations

from penstock.transactions.core.draft import Draft
from penstock.transactions.core.limits import ONCE_KEPT_MS, TransactionLimits
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Transaction
from penstock.transactions.core.volatile import ExpiryPaused

_IDS_PER_STEP = 1000
"""A round is cut into steps of so many, each a millisecond or so: requests are answered in between."""


def expire(state: TransactionsState, limits: TransactionLimits, draft: Draft) -> None:
    """One step of a round; what is left is noted, and the next step is due at once."""
    ids, queries = state.volatile.expiry_queue, state.volatile.expiry_queries
    if not ids and not queries:
        ids, queries = tuple(state.stored), tuple(state.queries)
    for transactional_id in ids[:_IDS_PER_STEP]:
        transaction = state.find(transactional_id)
        if transaction is not None and _is_unused(state, transaction, limits, draft.now_ms):
            draft.write(transactional_id, None)
    room = _IDS_PER_STEP - len(ids[:_IDS_PER_STEP])
    for query in queries[:room]:
        if _is_forgotten(state, query, limits, draft.now_ms):
            draft.write_query(query, None)
    ids, queries = ids[_IDS_PER_STEP:], queries[room:]
    draft.note(ExpiryPaused(ids, queries, draft.now_ms + (0 if ids or queries else limits.expiry_interval_ms)))


def _is_unused(state: TransactionsState, transaction: Transaction, limits: TransactionLimits, now_ms: int) -> bool:
    if transaction.is_ongoing or transaction.is_prepared:
        return False
    query = state.queries.get(transaction.claim.query) if transaction.claim is not None else None
    return transaction.updated_ms + _kept_ms(limits, once=query is not None and query.once) <= now_ms


def _is_forgotten(state: TransactionsState, name: str, limits: TransactionLimits, now_ms: int) -> bool:
    """Not before its transactions are: they are over without it."""
    query = state.queries.get(name)
    if query is None or name in state.attempts:
        return False
    return query.updated_ms + _kept_ms(limits, once=query.once) <= now_ms


def _kept_ms(limits: TransactionLimits, *, once: bool) -> int:
    return min(ONCE_KEPT_MS, limits.id_expiration_ms) if once else limits.id_expiration_ms
