"""What `penstock pipeline run audit` reads. Not in ApiVersions: Kafka's clients have no call for it."""

from __future__ import annotations

import struct

from penstock.broker.api import Api, Buffers, Caller
from penstock.broker.audit_files import AuditFiles
from penstock.config.audit import AuditToken
from penstock.later import Later, awaiting
from penstock.wire.audit_messages import (
    AuditProblem,
    AuditReply,
    AuditRequest,
    ListLogs,
    decode_request,
    encode_reply,
)
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import AUDIT

_LENGTH_AND_ID = struct.Struct(">ii")
_OFF = AuditReply(AuditProblem.OFF, "this node serves no audits: set audit.token, on all nodes the same, to allow them")
_DENIED = AuditReply(AuditProblem.DENIED, "the token is not what this node has in audit.token")


class Audit:
    """Deviation: a shared token, because there is no authentication yet."""

    api = Api(key=AUDIT, versions=(0, 0), private=True)

    def __init__(self, files: AuditFiles, token: AuditToken) -> None:
        self._files = files
        self._token = token

    def read(self, frame: memoryview, body_start: int, version: int) -> AuditRequest:
        try:
            return decode_request(frame[body_start:])
        except ValueError as error:
            raise Malformed("audit's request", str(error)) from None

    def start(self, request: AuditRequest, caller: Caller) -> AuditReply | Later[AuditReply]:
        if not self._token:
            return _OFF
        if not self._token.admits(request.token):
            return _DENIED
        if isinstance(request, ListLogs):
            return self._files.listed(request)
        return awaiting(self._files.read(request))

    def pack(self, response: AuditReply, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        body = encode_reply(response)
        return [_LENGTH_AND_ID.pack(len(body) + 4, correlation_id), body]
