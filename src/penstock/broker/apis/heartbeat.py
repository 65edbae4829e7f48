"""Heartbeat: a member is alive, and learns whether a rebalance is on."""

from __future__ import annotations

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_of_answer
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import HeartbeatAnswer
from penstock.groups.core.events import MemberHeartbeat
from penstock.later import Later


class Heartbeat:
    api = Api(key=12, versions=(0, 4))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: HeartbeatRequest, caller: Caller) -> Later[HeartbeatResponse]:
        event = MemberHeartbeat(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
        return self._groups.submit(request.group_id, event, HeartbeatAnswer).map(_response)


def _response(answer: HeartbeatAnswer | Refused) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code_of_answer(answer))
