"""What `penstock cluster` asks. Not in ApiVersions: Kafka's clients have no call for it."""

from __future__ import annotations

import struct

from penstock.broker.api import Api, Buffers, Caller
from penstock.cluster.core.operator_messages import OperatorReply, OperatorRequest, decode_request, encode_reply
from penstock.cluster.operating import Operating
from penstock.later import Later, awaiting
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import OPERATOR

_LENGTH_AND_ID = struct.Struct(">ii")


class Operator:
    """Deviation: whoever reaches the port may use it, because there is no authentication yet."""

    api = Api(key=OPERATOR, versions=(0, 0), on_controller=True, private=True)

    def __init__(self, operating: Operating) -> None:
        self._operating = operating

    def read(self, frame: memoryview, body_start: int, version: int) -> OperatorRequest:
        try:
            return decode_request(bytes(frame[body_start:]))
        except ValueError as error:
            raise Malformed("operator's request", str(error)) from None

    def start(self, request: OperatorRequest, caller: Caller) -> Later[OperatorReply]:
        return awaiting(self._operating.answer(request))

    def pack(self, response: OperatorReply, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        body = encode_reply(response)
        return [_LENGTH_AND_ID.pack(len(body) + 4, correlation_id), body]
