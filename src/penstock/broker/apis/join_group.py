"""JoinGroup: a member comes in, or comes back for the next generation. Answered when the generation is complete."""

from __future__ import annotations

from uuid import uuid4

from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller, milliseconds
from penstock.broker.error_codes import code_of_answer
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import JoinAnswer
from penstock.groups.core.events import JoinGroup as Join
from penstock.later import Later
from penstock.wire.lifts.join_group import JoinGroupRequest


class JoinGroup:
    api = Api(key=11, versions=(0, 9))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: JoinGroupRequest, caller: Caller) -> Later[JoinGroupResponse]:
        event = Join(
            group_id=request.group_id,
            member_id=request.member_id,
            client_id=caller.client_id,
            client_host=f"/{caller.host}",
            session_timeout_ms=milliseconds(request.session_timeout),
            rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            fresh_id=str(uuid4()),
            group_instance_id=request.group_instance_id,
            needs_known_member_id=request.requires_known_member_id,
            can_skip_assignment=request.supports_skipping_assignment,
        )
        return self._groups.submit(request.group_id, event, JoinAnswer).map(
            lambda answer: _response(answer, request.member_id)
        )


def _response(answer: JoinAnswer | Refused, member_id: str) -> JoinGroupResponse:
    code = code_of_answer(answer)
    if isinstance(answer, Refused):
        answer = JoinAnswer(answer.problem, member_id)
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        generation_id=i32(answer.generation),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in answer.members
        ),
    )
