"""DescribeConfigs, of topics and of this broker."""

from __future__ import annotations

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.static.primitive import i8

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.config_resources import ConfigResources
from penstock.broker.config_rows import ConfigRow
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused


class DescribeConfigs:
    """No key list (null) and, as older clients send it, an empty one both mean all settings."""

    api = Api(key=32, versions=(1, 4))

    def __init__(self, resources: ConfigResources) -> None:
        self._resources = resources

    def start(self, request: DescribeConfigsRequest, caller: Caller) -> DescribeConfigsResponse:
        # Each once, however often it is asked for: one has dozens of settings, with their documentation.
        results = tuple(self._describe(resource, request) for resource in dict.fromkeys(request.resources))
        return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=results)

    def _describe(self, resource: DescribeConfigsResource, request: DescribeConfigsRequest) -> DescribeConfigsResult:
        rows = self._resources.describe(resource.resource_type, resource.resource_name)
        if isinstance(rows, Refused):
            return DescribeConfigsResult(
                error_code=code_of(rows),
                error_message=rows.text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=(),
            )
        wanted = set(resource.configuration_keys or ())
        return DescribeConfigsResult(
            error_code=NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(_row(row, request) for row in rows if not wanted or row.name in wanted),
        )


def _row(row: ConfigRow, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=i8(row.source),
        is_sensitive=False,
        synonyms=tuple(
            DescribeConfigsSynonym(name=name, value=value, source=i8(source)) for name, value, source in synonyms
        ),
        config_type=i8(row.kind),
        documentation=row.doc if request.include_documentation else None,
    )
