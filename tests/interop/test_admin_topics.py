"""Topics, partitions, configs and records through each library's admin client."""

from __future__ import annotations

from tests.interop.admin import Admin, FullAdmin
from tests.interop.client import refused
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.record import AN_HOUR_AGO_MS, Record, numbered, values
from tests.interop.server import Server
from tests.interop.waiting import eventually

UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_OUT_OF_RANGE = 1
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40


def test_the_cluster_describes_itself(admin: Admin, server: Server) -> None:
    cluster = admin.cluster()
    addresses = {node_id: f"{host}:{port}" for node_id, host, port in cluster.brokers}
    assert sorted(addresses.values()) == sorted(server.bootstrap.split(","))
    assert cluster.controller_id in addresses
    assert cluster.cluster_id


def test_a_topic_is_created_listed_and_deleted(admin: Admin, server: Server) -> None:
    topic = server.name("topic")
    admin.create_topic(topic, partitions=3)
    eventually(lambda: admin.topics().get(topic) == 3, "the topic is listed")
    admin.delete_topic(topic)
    eventually(lambda: topic not in admin.topics(), "the topic is gone")


def test_a_topic_created_again_is_empty(admin: Admin, server: Server) -> None:
    topic, client = server.topic(), ConfluentClient(server.bootstrap)
    client.produce(topic, numbered(3))
    admin.delete_topic(topic)
    eventually(lambda: topic not in admin.topics(), "the topic is gone")
    admin.create_topic(topic)
    eventually(lambda: admin.topics().get(topic) == 1, "the topic is back")
    client.produce(topic, [Record(b"new")])
    assert values(client.consume(topic, 1)) == [b"new"]


def test_refusals_of_topics(admin: Admin, server: Server) -> None:
    topic = server.topic(partitions=2)
    with refused(TOPIC_ALREADY_EXISTS):
        admin.create_topic(topic)
    with refused(INVALID_TOPIC):
        admin.create_topic("no/slashes")
    with refused(INVALID_CONFIG):
        admin.create_topic(server.name("topic"), configs={"retention.ms": "a while"})
    with refused(INVALID_PARTITIONS):
        admin.add_partitions(topic, 1)
    with refused(UNKNOWN_TOPIC_OR_PARTITION):
        admin.delete_topic(server.name("never"))


def test_partitions_are_added_and_usable(admin: Admin, server: Server) -> None:
    topic, client = server.topic(partitions=1), ConfluentClient(server.bootstrap)
    client.produce(topic, [Record(b"old")])
    admin.add_partitions(topic, 3)
    eventually(lambda: admin.topics()[topic] == 3, "the topic has three partitions")
    client.produce(topic, [Record(b"new", partition=2)])
    assert values(client.consume(topic, 1, partition=2)) == [b"new"]
    assert values(client.consume(topic, 1)) == [b"old"]


def test_configs_given_at_creation_are_described(admin: Admin, server: Server) -> None:
    topic = server.name("topic")
    admin.create_topic(topic, configs={"retention.ms": "3600000", "cleanup.policy": "compact,delete"})
    eventually(lambda: topic in admin.topics(), "the topic is listed")
    configs = admin.topic_configs(topic)
    assert configs["retention.ms"] == "3600000"
    assert configs["cleanup.policy"] == "compact,delete"
    assert configs["message.timestamp.type"] == "CreateTime"


def test_replaced_configs(admin: Admin, server: Server) -> None:
    topic = server.topic(retention_ms="3600000")
    admin.replace_topic_configs(topic, {"retention.ms": "7200000"})
    eventually(lambda: admin.topic_configs(topic)["retention.ms"] == "7200000", "the new value is described")
    with refused(INVALID_CONFIG):
        admin.replace_topic_configs(topic, {"retention.ms": "a while"})


def test_changed_configs(full_admin: FullAdmin, server: Server) -> None:
    topic = server.topic(retention_ms="3600000", segment_bytes="2000000")
    default = full_admin.topic_configs(server.topic())["segment.bytes"]
    full_admin.change_topic_configs(topic, {"max.message.bytes": "2000"}, unset=["segment.bytes"])
    eventually(lambda: full_admin.topic_configs(topic)["max.message.bytes"] == "2000", "the new value is described")
    configs = full_admin.topic_configs(topic)
    assert configs["retention.ms"] == "3600000", "a setting that was not named has changed"
    assert configs["segment.bytes"] == default
    with refused(INVALID_CONFIG):
        full_admin.change_topic_configs(topic, {"no.such.setting": "1"})


def test_a_changed_config_takes_effect(full_admin: FullAdmin, server: Server) -> None:
    topic, client = server.topic(), ConfluentClient(server.bootstrap)
    client.produce(topic, [Record(b"x" * 5000)])
    full_admin.change_topic_configs(topic, {"max.message.bytes": "2000"})
    eventually(lambda: full_admin.topic_configs(topic)["max.message.bytes"] == "2000", "the new value is described")
    with refused(10):
        client.produce(topic, [Record(b"x" * 5000)])


def test_records_are_deleted_up_to_an_offset(admin: Admin, server: Server) -> None:
    topic, client = server.topic(), ConfluentClient(server.bootstrap)
    client.produce(topic, numbered(10))
    assert admin.delete_records(topic, before=4) == 4
    assert client.watermarks(topic) == (4, 10)
    assert values(client.consume(topic, 6, offset=4)) == values(numbered(10))[4:]
    with refused(OFFSET_OUT_OF_RANGE):
        admin.delete_records(topic, before=11)
    assert admin.delete_records(topic, before=-1) == 10
    assert client.watermarks(topic) == (10, 10)


def test_the_newest_record_is_found_wherever_it_lies(full_admin: FullAdmin, server: Server) -> None:
    topic, client = server.topic(), ConfluentClient(server.bootstrap)
    for later_ms in (0, 5000, 2000):
        client.produce(topic, [Record(b"x", timestamp_ms=AN_HOUR_AGO_MS + later_ms)])
    assert full_admin.newest_record(topic) == 1
