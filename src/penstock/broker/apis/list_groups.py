"""ListGroups: the groups of this broker, by state and type where asked."""

from __future__ import annotations

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.types import GroupId

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import ListGroupsAnswer
from penstock.groups.core.events import ListGroups as ListEvent
from penstock.later import Later


class ListGroups:
    api = Api(key=16, versions=(0, 5))

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def start(self, request: ListGroupsRequest, caller: Caller) -> Later[ListGroupsResponse]:
        event = ListEvent(states=request.states_filter, types=request.types_filter)
        return self._groups.submit_to_all(event, ListGroupsAnswer).map(_response)


def _response(answers: list[ListGroupsAnswer | Refused]) -> ListGroupsResponse:
    """What one partition cannot tell makes the list incomplete, and that is said."""
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    groups = [group for answer in answers if isinstance(answer, ListGroupsAnswer) for group in answer.groups]
    return ListGroupsResponse(
        throttle_time=NO_THROTTLE,
        error_code=code_of(refused[0]) if refused else NONE,
        groups=tuple(
            ListedGroup(
                group_id=GroupId(group.group_id),
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in sorted(groups, key=lambda group: group.group_id)
        ),
    )
