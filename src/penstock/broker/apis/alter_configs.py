"""AlterConfigs: replaces all that is set for a topic. Clients should prefer IncrementalAlterConfigs."""

from __future__ import annotations

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.config_resources import ConfigResources
from penstock.cluster.topics import ConfigChange
from penstock.later import Later, awaiting


class AlterConfigs:
    api = Api(key=33, versions=(0, 2), on_controller=True)

    def __init__(self, resources: ConfigResources) -> None:
        self._resources = resources

    def start(self, request: AlterConfigsRequest, caller: Caller) -> Later[AlterConfigsResponse]:
        altering = self._resources.alter(
            request.resources, _replacement, request.validate_only, AlterConfigsResourceResponse
        )
        return awaiting(altering).map(lambda rows: AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=rows))


def _replacement(resource: AlterConfigsResource) -> ConfigChange:
    wanted = {row.name: row.value for row in resource.configs if row.value is not None}
    return lambda _: wanted
