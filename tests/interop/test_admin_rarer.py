"""APIs that of the Python libraries only kafka-python calls."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.record import numbered
from tests.interop.server import Server
from tests.interop.waiting import eventually


@pytest.fixture(scope="module")
def kafka_admin(server: Server) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    yield admin
    admin.close()


def test_describe_topic_partitions_in_pages(kafka_admin: KafkaAdminClient, server: Server) -> None:
    topic = server.topic(partitions=5)
    first = kafka_admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [row["partition_index"] for row in first["topics"][0]["partitions"]] == [0, 1, 2]
    rest = kafka_admin.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert [row["partition_index"] for row in rest["topics"][0]["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None


def test_a_topic_is_described_and_deleted_by_its_id(kafka_admin: KafkaAdminClient, server: Server) -> None:
    topic = server.topic(partitions=2)
    (named,) = kafka_admin.describe_topics([topic])
    topic_id = UUID(named["topic_id"])
    (by_id,) = kafka_admin.describe_topics([topic_id])
    assert (by_id["name"], len(by_id["partitions"])) == (topic, 2)
    kafka_admin.delete_topics([topic_id])
    eventually(lambda: topic not in kafka_admin.list_topics(), "the topic is gone")


def test_log_dirs_know_the_size_of_a_partition(kafka_admin: KafkaAdminClient, server: Server) -> None:
    topic = server.topic()
    ConfluentClient(server.bootstrap).produce(topic, numbered(100))
    (described,) = kafka_admin.describe_topics([topic])
    (partition,) = described["partitions"]
    sizes = [
        row["partition_size"]
        for broker in kafka_admin.describe_log_dirs({topic: [0]})
        for log_dir in broker["log_dirs"]
        for listed in log_dir["topics"]
        for row in listed["partitions"]
    ]
    assert len(sizes) == len(partition["replica_nodes"])
    assert min(sizes) > 100 * len(b"value-0")


def test_producers_of_a_partition(kafka_admin: KafkaAdminClient, server: Server) -> None:
    topic = server.topic()
    ConfluentClient(server.bootstrap).produce(topic, numbered(7), idempotent=True)
    where = TopicPartition(topic, 0)
    (producer,) = kafka_admin.describe_producers([where])[where].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 6)
