"""EndTxn: the transaction is to be committed or aborted. Answered when that is decided for good.

Markers are written behind the answer; readers of committed records see what they end when they are there. In version 1
one that comes on a connection older than the newest that its transactional id was used on may be a late one, for a
transaction that is over: it is not carried out, and the connection is closed.
"""

from __future__ import annotations

from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from penstock.broker.api import NO_THROTTLE, Api, Caller, CloseConnection
from penstock.broker.apis.add_partitions_to_txn import OVERTAKEN
from penstock.broker.error_codes import NONE, code_or_none
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import ProducerAnswer
from penstock.transactions.core.events import EndTransaction
from penstock.transactions.core.transaction import Producer
from penstock.wire.lifts.end_txn import EndTxnRequest


class EndTxn:
    api = Api(key=26, versions=(0, 5))

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def start(self, request: EndTxnRequest, caller: Caller) -> Later[EndTxnResponse]:
        event = EndTransaction(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            request.committed,
            transaction_version=2 if request.bumps_epoch else 1,
            connection=caller.number,
        )
        return self._transactions.renew(event).map(_response)


def _response(answer: ProducerAnswer | Refused) -> EndTxnResponse:
    if answer.problem is Problem.TRANSACTION_OVERTAKEN:
        raise CloseConnection(OVERTAKEN)
    if isinstance(answer, Refused) or answer.problem is not None:
        return EndTxnResponse(throttle_time=NO_THROTTLE, error_code=code_or_none(answer.problem))
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=NONE,
        producer_id=ProducerId(answer.producer.id),
        producer_epoch=i16(answer.producer.epoch),
    )
