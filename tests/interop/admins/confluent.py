"""confluent-kafka's admin client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.interop.admin import Cluster, Group
from tests.interop.clients.confluent import refusal
from tests.interop.member import Partition

_TIMEOUT_S = 15.0


class ConfluentAdmin:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        """librdkafka closes it when the last reference goes."""

    def cluster(self) -> Cluster:
        found = _result(self._admin.describe_cluster())
        brokers = tuple((node.id, node.host, node.port) for node in found.nodes)
        return Cluster(found.cluster_id, found.controller.id, brokers)

    def topics(self) -> dict[str, int]:
        found = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return {name: len(row.partitions) for name, row in found.items() if not name.startswith("__")}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        _only(self._admin.create_topics([NewTopic(name, partitions, -1, config=dict(configs or {}))]))

    def delete_topic(self, name: str) -> None:
        _only(self._admin.delete_topics([name]))

    def add_partitions(self, topic: str, total: int) -> None:
        _only(self._admin.create_partitions([NewPartitions(topic, total)]))

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        found = _only(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in found.items()}

    def replace_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(configs))
        _only(self._admin.alter_configs([resource]))

    def change_topic_configs(self, topic: str, change: Mapping[str, str], unset: Sequence[str] = ()) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in change.items()
        ]
        entries += [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in unset]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _only(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, before: int) -> int:
        found = _only(self._admin.delete_records([TopicPartition(topic, 0, before)]))
        return int(found.low_watermark)

    def groups(self) -> set[str]:
        found = _result(self._admin.list_consumer_groups())
        assert not found.errors
        return {row.group_id for row in found.valid}

    def group(self, group: str) -> Group:
        found = _only(self._admin.describe_consumer_groups([group]))
        members = tuple(
            frozenset((it.topic, it.partition) for it in member.assignment.topic_partitions) for member in found.members
        )
        return Group(found.state.name.lower(), found.partition_assignor, members)

    def group_type(self, group: str) -> str:
        """`classic` or `consumer`; the other libraries do not tell."""
        return str(_only(self._admin.describe_consumer_groups([group])).type.name).lower()

    def delete_group(self, group: str) -> None:
        _only(self._admin.delete_consumer_groups([group]))

    def group_offsets(self, group: str) -> dict[Partition, int]:
        found = _only(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {(it.topic, it.partition): it.offset for it in found.topic_partitions}

    def set_group_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        rows = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
        found = _only(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, rows)]))
        for row in found.topic_partitions:
            if row.error is not None:
                raise refusal(KafkaException(row.error))

    def newest_record(self, topic: str) -> int:
        where = TopicPartition(topic, 0)
        return int(_only(self._admin.list_offsets({where: OffsetSpec.max_timestamp()})).offset)


def _result(future: Future[Any]) -> Any:
    try:
        return future.result(_TIMEOUT_S)
    except KafkaException as error:
        raise refusal(error) from error


def _only(futures: Mapping[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return _result(future)
