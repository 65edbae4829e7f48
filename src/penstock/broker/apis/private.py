"""What brokers of one cluster say to each other beyond Kafka's APIs. Not in ApiVersions: no client's business."""

from __future__ import annotations

import struct

from penstock.broker.api import Api, Buffers, Caller
from penstock.cluster.answering import Answering
from penstock.cluster.core.messages import Addressed, Reply, decode_message, encode
from penstock.later import Later
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import PRIVATE

_LENGTH_AND_ID = struct.Struct(">ii")


class Private:
    """Deviation: whoever reaches the port may use it, because there is no authentication yet."""

    api = Api(key=PRIVATE, versions=(0, 0), pipelined=True, private=True)

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def read(self, frame: memoryview, body_start: int, version: int) -> Addressed:
        try:
            return decode_message(bytes(frame[body_start:]))
        except ValueError as error:
            raise Malformed("private request", str(error)) from None

    def start(self, request: Addressed, caller: Caller) -> Later[Reply]:
        return self._answering.answer(request, caller.number)

    def pack(self, response: Reply, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        body = encode(response)
        return [_LENGTH_AND_ID.pack(len(body) + 4, correlation_id), body]
