"""ApiVersions: what this broker speaks. It lists only APIs that are served in full.

Clients that know `transaction.version` 2 end each of their transactions with another epoch (KIP-890).
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.static.primitive import i16, i64

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE

_TRANSACTION_VERSION = "transaction.version"
_NEWEST = i16(2)
# Brokers of one release all say the same, so there is never a later one.
_FEATURES_EPOCH = i64(0)


class ApiVersions:
    """The names of client software that KIP-511 brings are not kept: nothing here decides by them."""

    api = Api(key=18, versions=(0, 4))

    def __init__(self, served: Sequence[Api]) -> None:
        rows = []
        for api in sorted([*(api for api in served if not api.private), self.api], key=lambda api: api.key):
            oldest, newest = api.versions
            rows.append(ApiVersion(api_key=i16(api.key), min_version=i16(oldest), max_version=i16(newest)))
        supported = SupportedFeatureKey(name=_TRANSACTION_VERSION, min_version=i16(0), max_version=_NEWEST)
        finalized = FinalizedFeatureKey(name=_TRANSACTION_VERSION, max_version_level=_NEWEST, min_version_level=_NEWEST)
        self._response = ApiVersionsResponse(
            error_code=NONE,
            api_keys=tuple(rows),
            throttle_time=NO_THROTTLE,
            supported_features=(supported,),
            finalized_features_epoch=_FEATURES_EPOCH,
            finalized_features=(finalized,),
        )

    def start(self, request: ApiVersionsRequest, caller: Caller) -> ApiVersionsResponse:
        return self._response
