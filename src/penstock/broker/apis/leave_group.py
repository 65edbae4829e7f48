"""LeaveGroup: members go, and the others share their partitions. An operator can remove static members by name."""

from __future__ import annotations

from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_of_answer, code_or_none
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import LeaveAnswer
from penstock.groups.core.events import LeaveGroup as Leave
from penstock.groups.core.events import LeavingMember
from penstock.later import Later


class LeaveGroup:
    api = Api(key=13, versions=(0, 5))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: LeaveGroupRequest, caller: Caller) -> Later[LeaveGroupResponse]:
        members = tuple(LeavingMember(member.member_id, member.group_instance_id) for member in request.members)
        return self._groups.submit(request.group_id, Leave(request.group_id, members), LeaveAnswer).map(_response)


def _response(answer: LeaveAnswer | Refused) -> LeaveGroupResponse:
    rows = () if isinstance(answer, Refused) else answer.members
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=code_of_answer(answer),
        members=tuple(
            MemberResponse(
                member_id=row.member_id,
                group_instance_id=row.group_instance_id,
                error_code=code_or_none(row.problem),
            )
            for row in rows
        ),
    )
