"""ApiVersions: clients before version 4 refuse a feature that may be at version 0 (KIP-1022)."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.api_versions.v4.response import ApiVersionsResponse

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_ZERO = 4


def _adjust(response: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    if version >= _FIRST_WITH_ZERO:
        return response
    return replace(
        response,
        supported_features=tuple(feature for feature in response.supported_features if feature.min_version > 0),
    )


LIFT = Lift(api_key=18, adjust_response=_adjust)
