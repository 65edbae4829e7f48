"""JoinGroup: version 0 has one timeout for both purposes, and two abilities of a client show in its version only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.join_group.v9.response import JoinGroupResponse

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_THAT_SKIPS_ASSIGNMENT = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    group_id: str
    session_timeout: timedelta
    rebalance_timeout: timedelta = timedelta(milliseconds=-1)
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = None
    # A new dynamic member is first given its id and joins again with it (KIP-394), so that a lost answer leaves no
    # member behind that nobody speaks for.
    requires_known_member_id: bool = False
    # A static leader that rejoins can be told that the assignment stands (KIP-814).
    supports_skipping_assignment: bool = False


def _adjust_request(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    return replace(
        request,
        rebalance_timeout=(
            request.session_timeout if version < _FIRST_WITH_REBALANCE_TIMEOUT else request.rebalance_timeout
        ),
        requires_known_member_id=version >= _FIRST_WITH_MEMBER_ID_REQUIRED and request.group_instance_id is None,
        supports_skipping_assignment=version >= _FIRST_THAT_SKIPS_ASSIGNMENT,
    )


def _adjust_response(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """No protocol is null where it can be said, and empty before; handlers may write either."""
    if version >= _FIRST_WITH_NULL_PROTOCOL and response.protocol_name == "":
        return replace(response, protocol_name=None)
    return response


LIFT = Lift(api_key=11, request=JoinGroupRequest, adjust_request=_adjust_request, adjust_response=_adjust_response)
