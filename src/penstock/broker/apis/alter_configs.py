"""AlterConfigs: replaces all that is set for a topic. Clients should prefer IncrementalAlterConfigs."""

from __future__ import annotations

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.config_resources import ConfigResources
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused
from penstock.later import Later, awaiting


class AlterConfigs:
    api = Api(key=33, versions=(0, 2))

    def __init__(self, resources: ConfigResources) -> None:
        self._resources = resources

    def start(self, request: AlterConfigsRequest, caller: Caller) -> Later[AlterConfigsResponse]:
        return awaiting(self._alter_all(request))

    async def _alter_all(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        rows = [_row(row, await self._alter(row, request.validate_only)) for row in request.resources]
        return AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(rows))

    async def _alter(self, resource: AlterConfigsResource, validate_only: bool) -> Refused | None:
        wanted = {row.name: row.value for row in resource.configs if row.value is not None}
        return await self._resources.alter(
            resource.resource_type, resource.resource_name, lambda _: wanted, validate_only
        )


def _row(resource: AlterConfigsResource, refused: Refused | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=NONE if refused is None else code_of(refused),
        error_message=None if refused is None else refused.text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
