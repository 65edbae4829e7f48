"""Whether a request may have any effect: what all that name a transactional id have in common."""

from __future__ import annotations

from penstock.errors import Problem
from penstock.transactions.core.limits import MAX_TRANSACTIONAL_ID_CHARACTERS
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Producer, Transaction


def is_possible_id(transactional_id: str) -> bool:
    return 0 < len(transactional_id) <= MAX_TRANSACTIONAL_ID_CHARACTERS


def checked(state: TransactionsState, transactional_id: str, producer: Producer) -> Transaction | Problem:
    """The transaction, if this producer is who may use the id and nothing is being finished."""
    if not is_possible_id(transactional_id):
        return Problem.INVALID_REQUEST
    found = state.find(transactional_id)
    if found is None or found.producer.id != producer.id:
        return Problem.INVALID_PRODUCER_ID_MAPPING
    if found.producer.epoch != producer.epoch or not producer.is_for_clients:
        return Problem.PRODUCER_FENCED
    if found.claim is not None and state.is_over(found.claim):
        return Problem.PRODUCER_FENCED
    if found.is_prepared:
        return Problem.CONCURRENT_TRANSACTIONS
    return found
