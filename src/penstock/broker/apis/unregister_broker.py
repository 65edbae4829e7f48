"""UnregisterBroker: a broker that is gone for good is forgotten. Its replicas stay where they are recorded

until they are reassigned, but are in no ISR."""

from __future__ import annotations

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.operations import Operations
from penstock.errors import Refused
from penstock.later import Later


class UnregisterBroker:
    """Refused while it runs, and where only that broker has everything of a partition."""

    api = Api(key=64, versions=(0, 0), on_controller=True)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def start(self, request: UnregisterBrokerRequest, caller: Caller) -> Later[UnregisterBrokerResponse]:
        return self._operations.unregister(int(request.broker_id)).map(_answer)


def _answer(refused: Refused | None) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(
        throttle_time=NO_THROTTLE,
        error_code=NONE if refused is None else code_of(refused),
        error_message=None if refused is None else refused.text,
    )
