"""A topic's settings over the wire."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v0 import request as v0
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.testing import node

INVALID_CONFIG = 40
INVALID_REQUEST = 42
SET_FOR_THE_TOPIC = 1
SET_BY_NOBODY = 5

SET_WHILE_IT_RUNS = 2
SET, DELETE, APPEND, SUBTRACT = map(i8, range(4))

TOPIC = i8(2)
BROKER = i8(4)
GETS = "follower.replication.throttled.rate"
GIVES = "leader.replication.throttled.rate"
NAMED = "leader.replication.throttled.replicas"
UNLIMITED = str(2**63 - 1)
NAMES = [
    "retention.ms", "retention.bytes", "segment.ms", "flush.ms", "flush.messages", "delete.retention.ms",
    "min.compaction.lag.ms", "max.compaction.lag.ms", "file.delete.delay.ms", "index.interval.bytes",
]  # fmt: skip


def setting(
    resource_name: str, name: str, value: str | None, kind: i8 = TOPIC, operation: i8 = SET
) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=resource_name, configs=(change,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def described(connection: RawConnection, name: str, kind: i8 = TOPIC) -> dict[str, tuple[str, int]]:
    """Value and source of every setting."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=False, include_documentation=False)
    return {row.name: (row.value, row.config_source) for row in connection.ask(request).results[0].configs}


def test_changes_that_come_together_all_hold() -> None:
    with node() as server, ExitStack() as stack:
        connections = [stack.enter_context(RawConnection(server.bootstrap)) for _ in NAMES]
        assert connections[0].ask(requests.create_topic("orders")).topics[0].error_code == 0
        asked = [setting("orders", name, "7000") for name in NAMES]
        sent = [connection.send(request) for connection, request in zip(connections, asked, strict=True)]
        for connection, request, correlation_id in zip(connections, asked, sent, strict=True):
            assert connection.receive(request, correlation_id).responses[0].error_code == 0
        now = described(connections[0], "orders")
        assert {name: now[name] for name in NAMES} == dict.fromkeys(NAMES, ("7000", SET_FOR_THE_TOPIC))


# As Terraform, Spring, MirrorMaker or a Kafka administrator send them.
HELD = {
    "min.insync.replicas": "1",
    "compression.type": "producer",
    "unclean.leader.election.enable": "false",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "preallocate": "false",
    "message.downconversion.enable": "true",
    "remote.storage.enable": "false",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "leader.replication.throttled.replicas": "",
    "follower.replication.throttled.replicas": "",
}
PROMISES = {
    "min.insync.replicas": "0",
    "compression.type": "zstd",
    "unclean.leader.election.enable": "sometimes",
    "segment.index.bytes": "1024",
    "segment.jitter.ms": "1000",
    "preallocate": "true",
    "message.downconversion.enable": "maybe",
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "local.retention.bytes": "1000",
    "leader.replication.throttled.replicas": "all",
    "follower.replication.throttled.replicas": "0:1,0",
}


def test_what_holds_anyway_is_accepted_and_shown() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        for topic, configs in (("given", HELD), ("plain", {})):
            (row,) = connection.ask(requests.create_topic(topic, configs=configs)).topics
            assert row.error_code == 0, row.error_message
        given, plain = described(connection, "given"), described(connection, "plain")
        assert {name: given[name] for name in HELD} == {name: (text, SET_FOR_THE_TOPIC) for name, text in HELD.items()}
        held = {**HELD, "message.downconversion.enable": "false"}
        assert {name: plain[name] for name in HELD} == {name: (text, SET_BY_NOBODY) for name, text in held.items()}


def test_what_does_not_hold_is_refused_with_a_reason() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        before = described(connection, "orders")
        for name, value in PROMISES.items():
            (row,) = connection.ask(setting("orders", name, value)).responses
            assert row.error_code == INVALID_CONFIG, name
            assert name in row.error_message
        (row,) = connection.ask(requests.create_topic("safe", configs={"preallocate": "true"})).topics
        assert (row.error_code, "segments grow" in row.error_message) == (INVALID_CONFIG, True)
        assert described(connection, "orders") == before


def test_a_brokers_throttle_is_changed_while_it_runs_and_is_there_after_a_restart(tmp_path: Path) -> None:
    own, settings = "7", {"node.id": "7"}

    def alter(connection: RawConnection, name: str, value: str | None, operation: i8 = SET) -> int:
        return int(connection.ask(setting(own, name, value, BROKER, operation)).responses[0].error_code)

    with node(settings, data_dir=str(tmp_path)) as server, RawConnection(server.bootstrap) as connection:
        assert described(connection, own, BROKER)[GETS] == (UNLIMITED, SET_BY_NOBODY)
        assert alter(connection, GETS, "20000000") == alter(connection, GIVES, "30000000") == 0
        assert alter(connection, GETS, "slow") == INVALID_CONFIG
        assert alter(connection, "replica.fetch.max.bytes", "2048") == INVALID_REQUEST
    with node(settings, data_dir=str(tmp_path)) as server, RawConnection(server.bootstrap) as connection:
        now = described(connection, own, BROKER)
        assert (now[GETS], now[GIVES]) == (("20000000", SET_WHILE_IT_RUNS), ("30000000", SET_WHILE_IT_RUNS))
        assert alter(connection, GETS, None, DELETE) == 0
        now = described(connection, own, BROKER)
        assert (now[GETS], now[GIVES]) == ((UNLIMITED, SET_BY_NOBODY), ("30000000", SET_WHILE_IT_RUNS))


def test_a_refusal_of_something_long_is_short_enough_for_every_version() -> None:
    long = v0.AlterableConfig(name="retention.ms", config_operation=SET, value="x" * (2**15 - 1))
    resource = v0.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=(long,))
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        asked = v0.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (row,) = connection.ask(asked).responses
        assert row.error_code == INVALID_CONFIG
        assert "retention.ms" in row.error_message and len(row.error_message) < 10_000


def test_a_broker_with_thousands_of_digits_is_none() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        (row,) = connection.ask(setting("9" * 5000, GETS, "1000", BROKER)).responses
        assert row.error_code == INVALID_REQUEST


def test_replicas_that_a_limit_concerns_are_added_and_taken_away_as_kafkas_tools_do() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        for operation, value, after in (
            (APPEND, "0:1,0:2", "0:1,0:2"),
            (APPEND, "0:2,1:3", "0:1,0:2,1:3"),
            (SUBTRACT, "0:1", "0:2,1:3"),
            (SET, "*", "*"),
            (DELETE, None, ""),
        ):
            (row,) = connection.ask(setting("orders", NAMED, value, TOPIC, operation)).responses
            assert row.error_code == 0, row.error_message
            assert described(connection, "orders")[NAMED][0] == after


def test_a_list_does_not_grow_beyond_what_an_answer_can_hold() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        codes = []
        for broker in range(3):
            more = ",".join(f"{partition}:{broker}" for partition in range(2000))
            codes.append(connection.ask(setting("orders", NAMED, more, operation=APPEND)).responses[0].error_code)
        assert codes == [0, 0, INVALID_CONFIG]
        assert described(connection, "orders")[NAMED][0].count(",") == 3999
