"""DescribeGroups: version 6 says that a group is unknown; before, such a group was described as dead, without error."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.errors import ErrorCode

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_ERROR = 6
_DEAD = "Dead"


def _adjust(response: DescribeGroupsResponse, version: int) -> DescribeGroupsResponse:
    if version >= _FIRST_WITH_ERROR:
        return response
    return replace(response, groups=tuple(map(_as_dead, response.groups)))


def _as_dead(group: DescribedGroup) -> DescribedGroup:
    if group.error_code is not ErrorCode.group_id_not_found:
        return group
    return replace(group, error_code=ErrorCode.none, group_state=_DEAD)


LIFT = Lift(api_key=15, adjust_response=_adjust)
