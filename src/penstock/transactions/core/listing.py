"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

from penstock.errors import Problem
from penstock.transactions.core.answers import DescribeAnswer, ListAnswer, ListedTransaction
from penstock.transactions.core.checks import is_possible_id
from penstock.transactions.core.events import DescribeTransaction, ListTransactions
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Transaction, TransactionState

_NAMES = {state.value for state in TransactionState}


def list_transactions(state: TransactionsState, event: ListTransactions, now_ms: int) -> ListAnswer:
    """A filter with a state that does not exist lets nothing pass by it, and is told."""
    wanted, producers = set(event.states), set(event.producer_ids)

    def is_listed(transaction: Transaction) -> bool:
        if wanted and transaction.state.value not in wanted:
            return False
        if producers and transaction.producer.id not in producers:
            return False
        return event.longer_than_ms < 0 or now_ms - transaction.started_ms > event.longer_than_ms

    return ListAnswer(
        tuple(
            ListedTransaction(transactional_id, transaction.producer.id, transaction.state.value)
            for transactional_id, transaction in state.stored.items()
            if is_listed(transaction)
        ),
        tuple(name for name in dict.fromkeys(event.states) if name not in _NAMES),
    )


def describe(state: TransactionsState, event: DescribeTransaction) -> DescribeAnswer:
    if not is_possible_id(event.transactional_id):
        return DescribeAnswer(Problem.INVALID_REQUEST, event.transactional_id)
    found = state.find(event.transactional_id)
    if found is None:
        return DescribeAnswer(Problem.TRANSACTIONAL_ID_NOT_FOUND, event.transactional_id)
    return DescribeAnswer(
        problem=None,
        transactional_id=event.transactional_id,
        state=found.state.value,
        producer=found.producer,
        timeout_ms=found.timeout_ms,
        started_ms=found.started_ms,
        topics=found.topics,
    )
