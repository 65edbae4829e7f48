"""aiokafka's admin client: a thin one, it hands out raw answers, so the codes are read from them here."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from aiokafka import TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import (  # type: ignore[import-untyped]
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]
from aiokafka.coordinator.protocol import (  # type: ignore[import-untyped]
    ConsumerProtocolMemberAssignment,
)
from aiokafka.errors import BrokerResponseError  # type: ignore[import-untyped]
from tests.interop.admin import Cluster, Group
from tests.interop.client import Refusal
from tests.interop.member import Partition


class AioAdmin:
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._admin: Any = self._run(self._started(bootstrap))

    @staticmethod
    async def _started(bootstrap: str) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._loop.run_until_complete(call)
        except BrokerResponseError as error:
            raise Refusal(error.errno, str(error)) from error

    def close(self) -> None:
        self._run(self._admin.close())
        self._loop.close()

    def cluster(self) -> Cluster:
        found = self._run(self._admin.describe_cluster())
        brokers = tuple((row["node_id"], row["host"], row["port"]) for row in found["brokers"])
        return Cluster(found["cluster_id"], found["controller_id"], brokers)

    def topics(self) -> dict[str, int]:
        rows = self._run(self._admin.describe_topics())
        return {row["topic"]: len(row["partitions"]) for row in rows if not row["is_internal"]}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        # It knows no word for the cluster's default, which in those under test is one replica for each broker.
        wanted = NewTopic(name, partitions, len(self.cluster().brokers), topic_configs=dict(configs or {}))
        for row in self._run(self._admin.create_topics([wanted])).topic_errors:
            _refuse(row[1])

    def delete_topic(self, name: str) -> None:
        for row in self._run(self._admin.delete_topics([name])).topic_error_codes:
            _refuse(row[1])

    def add_partitions(self, topic: str, total: int) -> None:
        self._run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        (found,) = self._run(self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        (row,) = found.resources
        _refuse(row[0])
        return {entry[0]: entry[1] for entry in row[4]}

    def replace_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        for found in self._run(self._admin.alter_configs([resource])):
            for row in found.resources:
                _refuse(row[0])

    def delete_records(self, topic: str, before: int) -> int:
        where = TopicPartition(topic, 0)
        found = self._run(self._admin.delete_records({where: RecordsToDelete(before_offset=before)}))
        return int(found[where])

    def groups(self) -> set[str]:
        return {row[0] for row in self._run(self._admin.list_consumer_groups())}

    def group(self, group: str) -> Group:
        (found,) = self._run(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, assignor, members, *_),) = found.groups
        _refuse(code)
        return Group(state.lower(), assignor, tuple(_partitions(row[-1]) for row in members))

    def group_offsets(self, group: str) -> dict[Partition, int]:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {(where.topic, where.partition): it.offset for where, it in found.items()}


def _partitions(assignment: bytes) -> frozenset[Partition]:
    rows = ConsumerProtocolMemberAssignment.decode(assignment).assignment if assignment else ()
    return frozenset((topic, index) for topic, indexes in rows for index in indexes)


def _refuse(code: int) -> None:
    if code:
        raise Refusal(code, "aiokafka gives no text")
