"""Changes of a topic's settings over the wire."""

from __future__ import annotations

from contextlib import ExitStack

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.testing import node

TOPIC = i8(2)
NAMES = [
    "retention.ms", "retention.bytes", "segment.ms", "flush.ms", "flush.messages", "delete.retention.ms",
    "min.compaction.lag.ms", "max.compaction.lag.ms", "file.delete.delay.ms", "index.interval.bytes",
]  # fmt: skip


def setting(topic: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=name, config_operation=i8(0), value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=(change,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def settings_of(connection: RawConnection, topic: str) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=False, include_documentation=False)
    return {row.name: row.value for row in connection.ask(request).results[0].configs}


def test_changes_that_come_together_all_hold() -> None:
    with node() as server, ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(server.bootstrap)) for _ in NAMES]
        assert connections[0].ask(requests.create_topic("orders")).topics[0].error_code == 0
        asked = [setting("orders", name, "7000") for name in NAMES]
        sent = [connection.send(request) for connection, request in zip(connections, asked, strict=True)]
        for connection, request, correlation_id in zip(connections, asked, sent, strict=True):
            assert connection.receive(request, correlation_id).responses[0].error_code == 0
        now = settings_of(connections[0], "orders")
        assert {name: now[name] for name in NAMES} == dict.fromkeys(NAMES, "7000")
