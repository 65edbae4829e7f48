"""SyncGroup: the leader brings the assignment, everyone gets their part of it."""

from __future__ import annotations

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_of_answer
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import SyncAnswer
from penstock.groups.core.events import SyncGroup as Sync
from penstock.later import Later


class SyncGroup:
    api = Api(key=14, versions=(0, 5))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: SyncGroupRequest, caller: Caller) -> Later[SyncGroupResponse]:
        event = Sync(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=tuple((row.member_id, row.assignment) for row in request.assignments),
        )
        return self._groups.submit(request.group_id, event, SyncAnswer).map(_response)


def _response(answer: SyncAnswer | Refused) -> SyncGroupResponse:
    code = code_of_answer(answer)
    if isinstance(answer, Refused):
        answer = SyncAnswer(answer.problem)
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
