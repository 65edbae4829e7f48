"""InitProducerId: a producer gets its id and epoch; one with a transactional id takes that over from whoever had it.

Deviation: two-phase commit (KIP-939) is refused as in a Kafka that does not allow it.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from penstock.broker.api import NO_THROTTLE, Api, Caller, milliseconds
from penstock.broker.error_codes import NONE, code_or_none
from penstock.coordination.producer_ids import ProducerIds
from penstock.errors import Refused
from penstock.later import Later, awaiting
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import ProducerAnswer
from penstock.transactions.core.events import InitProducerId as Event


class InitProducerId:
    """Without a transactional id every call gives a new id, also to a producer that has one: its sequences then start

    at 0 everywhere, whatever state a log still has of it.
    """

    api = Api(key=22, versions=(0, 6))

    def __init__(self, producer_ids: ProducerIds, transactions: Transactions) -> None:
        self._producer_ids = producer_ids
        self._transactions = transactions

    def start(
        self, request: InitProducerIdRequest, caller: Caller
    ) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
        if request.transactional_id is None:
            return awaiting(self._give())
        if request.enable2_pc or request.keep_prepared_txn:
            return _refused(ErrorCode.transactional_id_authorization_failed)
        event = Event(
            request.transactional_id,
            milliseconds(request.transaction_timeout),
            request.producer_id,
            request.producer_epoch,
        )
        return self._transactions.renew(event).map(_answered)

    async def _give(self) -> InitProducerIdResponse:
        match await self._producer_ids.allocate():
            case Refused():
                # Kafka's answer when it has no ids left: clients take it as a reason to ask again, and older ones
                # take every other error as final.
                return _refused(ErrorCode.coordinator_load_in_progress)
            case producer_id:
                return _given(producer_id, 0)


def _answered(answer: ProducerAnswer | Refused) -> InitProducerIdResponse:
    if isinstance(answer, Refused) or answer.problem is not None:
        return _refused(code_or_none(answer.problem))
    return _given(answer.producer.id, answer.producer.epoch)


def _given(producer_id: int, epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE, error_code=NONE, producer_id=ProducerId(producer_id), producer_epoch=i16(epoch)
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=code, producer_epoch=i16(-1))
