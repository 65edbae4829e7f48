"""FindCoordinator: up to version 3 one key per request, answered in the response itself; then several, in rows."""

from __future__ import annotations

from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as SingleRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse as SingleResponse
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse

from penstock.wire.lifts.lift import Lift


def _lift(request: SingleRequest) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=request.key_type, coordinator_keys=(request.key,))


def _lower(response: FindCoordinatorResponse) -> SingleResponse:
    (found,) = response.coordinators
    return SingleResponse(
        throttle_time=response.throttle_time,
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


LIFT = Lift(api_key=10, pivot=3, lift_pivot=_lift, lower_pivot=_lower)
