"""DescribeGroups: members and their assignments of classic groups."""

from __future__ import annotations

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.types import GroupId

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_of, code_or_none
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import DescribedGroup as Described
from penstock.groups.core.answers import DescribeGroupsAnswer
from penstock.groups.core.events import DescribeGroups as Describe
from penstock.later import Later, gather


class DescribeGroups:
    api = Api(key=15, versions=(0, 6))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: DescribeGroupsRequest, caller: Caller) -> Later[DescribeGroupsResponse]:
        # Each once, however often it is asked for: its members may have megabytes to show.
        return gather([self._describe(group_id) for group_id in dict.fromkeys(request.groups)]).map(
            lambda rows: DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=tuple(rows))
        )

    def _describe(self, group_id: GroupId) -> Later[DescribedGroup]:
        return self._groups.submit(group_id, Describe((group_id,)), DescribeGroupsAnswer).map(
            lambda answer: _refused(group_id, answer) if isinstance(answer, Refused) else _row(answer.groups[0])
        )


def _refused(group_id: GroupId, refused: Refused) -> DescribedGroup:
    return DescribedGroup(
        error_code=code_of(refused),
        error_message=refused.text,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _row(group: Described) -> DescribedGroup:
    return DescribedGroup(
        error_code=code_or_none(group.problem),
        error_message=f"group {group.group_id} not found" if group.problem is Problem.UNKNOWN_GROUP else None,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
    )
