"""kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.admin import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]
from kafka.errors import BrokerResponseError, NoError  # type: ignore[import-untyped]
from kafka.protocol.consumer import OffsetSpec  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]
from tests.interop.admin import Cluster, Group
from tests.interop.client import Refusal
from tests.interop.member import Partition

# These three come back as the names of kafka-python's error classes, not as exceptions.
_CODES = {"NonEmptyGroupError": 68, "GroupIdNotFoundError": 69, "GroupSubscribedToTopicError": 86}


class KafkaPythonAdmin:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def cluster(self) -> Cluster:
        found = self._admin.describe_cluster()
        brokers = tuple((row["broker_id"], row["host"], row["port"]) for row in found["brokers"])
        return Cluster(found["cluster_id"], found["controller_id"], brokers)

    def topics(self) -> dict[str, int]:
        rows = self._admin.describe_topics()
        return {row["name"]: len(row["partitions"]) for row in rows if not row["is_internal"]}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": -1, "configs": dict(configs or {})}
        _raising(lambda: self._admin.create_topics({name: wanted}))

    def delete_topic(self, name: str) -> None:
        _raising(lambda: self._admin.delete_topics([name]))

    def add_partitions(self, topic: str, total: int) -> None:
        _raising(lambda: self._admin.create_partitions({topic: total}))

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        found = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def replace_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self._alter(topic, configs, incremental=False)

    def change_topic_configs(self, topic: str, change: Mapping[str, str], unset: Sequence[str] = ()) -> None:
        self._alter(topic, {**change, **dict.fromkeys(unset, ("DELETE", None))}, incremental=True)

    def _alter(self, topic: str, configs: Mapping[str, Any], *, incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        found = self._admin.alter_configs([resource], raise_on_unknown=False, incremental=incremental)
        said = found["topic"][topic]
        if said != "OK":
            raise Refusal(_code_in(said), said)

    def delete_records(self, topic: str, before: int) -> int:
        where = TopicPartition(topic, 0)
        found = _raising(lambda: self._admin.delete_records({where: before}))
        return int(found[where]["low_watermark"])

    def groups(self) -> set[str]:
        return {row["group_id"] for row in self._admin.list_groups()}

    def group(self, group: str) -> Group:
        found = self._admin.describe_groups([group])[group]
        if found["error"]:
            raise Refusal(_code_in(found["error"]), found["error"])
        members = tuple(_partitions(row["member_assignment"]) for row in found["members"])
        return Group(found["group_state"].lower(), found["protocol_data"], members)

    def delete_group(self, group: str) -> None:
        said = self._admin.delete_groups([group])[group]
        if said != "OK":
            raise Refusal(_CODES[said], said)

    def group_offsets(self, group: str) -> dict[Partition, int]:
        found = self._admin.list_group_offsets(group)[group]
        return {(where.topic, where.partition): it.offset for where, it in found.items()}

    def set_group_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        rows = {TopicPartition(*where): OffsetAndMetadata(offset, "", -1) for where, offset in offsets.items()}
        _no_errors(self._admin.alter_group_offsets(group, rows).values())

    def forget_group_offsets(self, group: str, partitions: Sequence[Partition]) -> None:
        """OffsetDelete, which only this library has."""
        found = _raising(
            lambda: self._admin.delete_group_offsets(group, [TopicPartition(*where) for where in partitions])
        )
        _no_errors(found.values())

    def newest_record(self, topic: str) -> int:
        where = TopicPartition(topic, 0)
        return int(self._admin.list_partition_offsets({where: OffsetSpec.MAX_TIMESTAMP})[where].offset)


def _partitions(assignment: Any) -> frozenset[Partition]:
    rows = assignment["assigned_partitions"] if assignment else ()
    return frozenset((row["topic"], index) for row in rows for index in row["partitions"])


def _raising(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BrokerResponseError as error:
        raise Refusal(error.errno, str(error)) from error


def _no_errors(kinds: Iterable[Any]) -> None:
    for kind in kinds:
        if kind is not NoError:
            raise Refusal(kind.errno, kind.__name__)


def _code_in(said: str) -> int:
    """kafka-python's error texts begin with the code in brackets."""
    return int(said[said.index("[Error ") + 7 : said.index("]")])
