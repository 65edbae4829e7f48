"""Transactional ids that nobody uses any more."""

from __future__ import annotations

from penstock.transactions.core.draft import Draft
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Transaction
from penstock.transactions.core.volatile import ExpiryPaused

_IDS_PER_STEP = 1000
"""A round is cut into steps of so many, each a millisecond or so: requests are answered in between."""


def expire(state: TransactionsState, limits: TransactionLimits, draft: Draft) -> None:
    """One step of a round; what is left is noted, and the next step is due at once."""
    waiting = state.volatile.expiry_queue or tuple(state.stored)
    for transactional_id in waiting[:_IDS_PER_STEP]:
        transaction = state.find(transactional_id)
        if transaction is not None and _is_unused(transaction, limits, draft.now_ms):
            draft.write(transactional_id, None)
    rest = waiting[_IDS_PER_STEP:]
    draft.note(ExpiryPaused(rest, draft.now_ms + (0 if rest else limits.expiry_interval_ms)))


def _is_unused(transaction: Transaction, limits: TransactionLimits, now_ms: int) -> bool:
    if transaction.is_ongoing or transaction.is_prepared:
        return False
    return transaction.updated_ms + limits.id_expiration_ms <= now_ms
