"""DeleteGroups: groups without members, with all that they committed."""

from __future__ import annotations

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.types import GroupId

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import code_or_none
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import DeleteGroupsAnswer
from penstock.later import Later, gather


class DeleteGroups:
    api = Api(key=42, versions=(0, 2))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: DeleteGroupsRequest, caller: Caller) -> Later[DeleteGroupsResponse]:
        return gather([self._delete(group_id) for group_id in dict.fromkeys(request.groups_names)]).map(
            lambda rows: DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(rows))
        )

    def _delete(self, group_id: GroupId) -> Later[DeletableGroupResult]:
        def row(answer: DeleteGroupsAnswer | Refused) -> DeletableGroupResult:
            problem = answer.problem if isinstance(answer, Refused) else answer.groups[0].problem
            return DeletableGroupResult(group_id=group_id, error_code=code_or_none(problem))

        return self._groups.delete_group(group_id).map(row)
