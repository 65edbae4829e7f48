"""ApiVersions: what this broker speaks. It lists only APIs that are served in full."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.static.primitive import i16

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE


class ApiVersions:
    """The names of client software that KIP-511 brings are not kept: nothing here decides by them."""

    api = Api(key=18, versions=(0, 4))

    def __init__(self, served: Sequence[Api]) -> None:
        rows = []
        for api in sorted([*(api for api in served if not api.private), self.api], key=lambda api: api.key):
            oldest, newest = api.versions
            rows.append(ApiVersion(api_key=i16(api.key), min_version=i16(oldest), max_version=i16(newest)))
        self._response = ApiVersionsResponse(error_code=NONE, api_keys=tuple(rows), throttle_time=NO_THROTTLE)

    def start(self, request: ApiVersionsRequest, caller: Caller) -> ApiVersionsResponse:
        return self._response
