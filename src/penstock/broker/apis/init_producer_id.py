"""InitProducerId for idempotent producers.

Deviation: transactional ids are refused with INVALID_REQUEST. Transactions are not served yet, and ApiVersions lists
none of their APIs.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE
from penstock.coordination.producer_ids import ProducerIds
from penstock.errors import Refused
from penstock.later import Later, awaiting


class InitProducerId:
    """Every call gives a new id, also to a producer that has one: its sequences then start at 0 everywhere, whatever
    state a log still has of it.
    """

    api = Api(key=22, versions=(0, 6))

    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    def start(
        self, request: InitProducerIdRequest, caller: Caller
    ) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
        if request.transactional_id is not None:
            return _refused(ErrorCode.invalid_request)
        return awaiting(self._give())

    async def _give(self) -> InitProducerIdResponse:
        match await self._producer_ids.allocate():
            case Refused():
                # Kafka's answer when it has no ids left: clients take it as a reason to ask again, and older ones
                # take every other error as final.
                return _refused(ErrorCode.coordinator_load_in_progress)
            case producer_id:
                return InitProducerIdResponse(
                    throttle_time=NO_THROTTLE,
                    error_code=NONE,
                    producer_id=ProducerId(producer_id),
                    producer_epoch=i16(0),
                )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=code, producer_epoch=i16(-1))
