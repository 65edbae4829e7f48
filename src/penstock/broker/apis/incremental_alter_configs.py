"""IncrementalAlterConfigs: sets, removes, or adds to and takes from lists, and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.config_resources import ConfigResources
from penstock.broker.config_rows import LIST_SETTINGS
from penstock.cluster.topics import ConfigChange
from penstock.errors import Problem, Refused
from penstock.later import Later, awaiting
from penstock.wire.bounds import MAX_STRING_BYTES


class Operation(IntEnum):
    """Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class IncrementalAlterConfigs:
    api = Api(key=44, versions=(0, 1), on_controller=True)

    def __init__(self, resources: ConfigResources) -> None:
        self._resources = resources

    def start(self, request: IncrementalAlterConfigsRequest, caller: Caller) -> Later[IncrementalAlterConfigsResponse]:
        altering = self._resources.alter(
            request.resources, _change, request.validate_only, AlterConfigsResourceResponse
        )
        return awaiting(altering).map(
            lambda rows: IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=rows)
        )


def _change(resource: AlterConfigsResource) -> ConfigChange:
    return lambda current: changed(current, resource.configs)


def changed(current: Mapping[str, str], changes: tuple[AlterableConfig, ...]) -> dict[str, str] | Refused:
    wanted = dict(current)
    if len({change.name for change in changes}) != len(changes):
        return Refused(Problem.INVALID_REQUEST, "a setting may be in the request once only")
    for change in changes:
        match change.config_operation:
            case Operation.DELETE:
                wanted.pop(change.name, None)
            case _ if change.value is None:
                return Refused(Problem.INVALID_REQUEST, f"{change.name} has no value")
            case Operation.SET:
                wanted[change.name] = change.value
            case Operation.APPEND | Operation.SUBTRACT if change.name in LIST_SETTINGS:
                changed_list = _changed_list(wanted, change, change.value)
                if len(changed_list.encode()) > MAX_STRING_BYTES:
                    text = f"{change.name} would have more than {MAX_STRING_BYTES} bytes, and no client could read it"
                    return Refused(Problem.INVALID_CONFIG, text)
                wanted[change.name] = changed_list
            case Operation.APPEND | Operation.SUBTRACT:
                return Refused(Problem.INVALID_CONFIG, f"{change.name} is not a list: set it as a whole")
            case unknown:
                return Refused(Problem.INVALID_REQUEST, f"operation {unknown} is unknown")
    return wanted


def _changed_list(config: Mapping[str, str], change: AlterableConfig, value: str) -> str:
    # Each once, and in order; there may be thousands.
    items = dict.fromkeys(item for item in config.get(change.name, LIST_SETTINGS[change.name]).split(",") if item)
    named = dict.fromkeys(item.strip() for item in value.split(","))
    if Operation(change.config_operation) is Operation.APPEND:
        return ",".join({**items, **named})
    return ",".join(item for item in items if item not in named)
