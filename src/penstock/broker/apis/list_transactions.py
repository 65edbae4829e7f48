"""ListTransactions: those that this broker coordinates."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TransactionalId

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE
from penstock.errors import Refused
from penstock.later import Later
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import ListAnswer
from penstock.transactions.core.events import ListTransactions as Event


class ListTransactions:
    """Deviation: version 2, which filters by a pattern of the transactional id, is not served."""

    api = Api(key=66, versions=(0, 1))

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def start(self, request: ListTransactionsRequest, caller: Caller) -> Later[ListTransactionsResponse]:
        event = Event(request.state_filters, request.producer_id_filters, request.duration_filter)
        return self._transactions.listed(event).map(_response)


def _response(answers: list[ListAnswer | Refused]) -> ListTransactionsResponse:
    listed = [answer for answer in answers if isinstance(answer, ListAnswer)]
    if len(listed) < len(answers):
        # A list that lacks some is worse than none, and soon there is all of it.
        return ListTransactionsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.coordinator_load_in_progress, transaction_states=()
        )
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=NONE,
        unknown_state_filters=listed[0].unknown_states if listed else (),
        transaction_states=tuple(
            TransactionState(
                transactional_id=TransactionalId(row.transactional_id),
                producer_id=ProducerId(row.producer_id),
                transaction_state=row.state,
            )
            for answer in listed
            for row in answer.transactions
        ),
    )
