"""LeaveGroup: up to version 2 one member leaves, and its error is the response's; then several, in rows."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v2.request import LeaveGroupRequest as SingleRequest
from kio.schema.leave_group.v2.response import LeaveGroupResponse as SingleResponse
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse

from penstock.wire.lifts.lift import Lift


def _lift(request: SingleRequest) -> LeaveGroupRequest:
    member = MemberIdentity(member_id=request.member_id, group_instance_id=None, reason=None)
    return LeaveGroupRequest(group_id=request.group_id, members=(member,))


def _lower(response: LeaveGroupResponse) -> SingleResponse:
    error_code = response.error_code
    if error_code is ErrorCode.none and response.members:
        error_code = response.members[0].error_code
    return SingleResponse(throttle_time=response.throttle_time, error_code=error_code)


LIFT = Lift(api_key=13, pivot=2, lift_pivot=_lift, lower_pivot=_lower)
