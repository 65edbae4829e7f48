"""A cluster as a client sees it: topics, leaders, offsets. Waits while brokers restart and leaders change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import TopicName

from penstock.config.address import Address
from penstock.spark import group_requests, offset_requests
from penstock.spark.brokers import Brokers
from penstock.spark.connection import Connection
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import Again, ClientFailure, TopicMissing
from penstock.spark.core.topic_partition import TopicPartition, listed
from penstock.spark.core.topics import FoundOffset, Leader, Topic
from penstock.spark.group_requests import Group
from penstock.spark.patience import Patience

T = TypeVar("T")

# Besides a moment in milliseconds, what can be asked of ListOffsets.
LATEST = -1
EARLIEST = -2
# What one broker knows, all know after so many more questions.
_MISSING_TRIES = 3

_GONE = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


class Cluster:
    """For one thread. Every method raises ClientFailure: Unavailable if it has waited for as long as it may."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._brokers = Brokers(settings)
        self._patience = Patience(settings.patience_ms)
        self._leaders: dict[TopicPartition, Leader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._brokers.close()

    # Topics

    def topics(self, names: Iterable[str], *, create: bool = False) -> tuple[Topic, ...]:
        """Those that there are, by name. `create`: others too, if the cluster makes topics for whoever asks."""
        wanted = tuple(sorted(set(names)))
        if not wanted:
            return ()
        rows = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in wanted)
        return self._patience.until_done(f"looking up topics {', '.join(wanted)}", lambda: self._topics(rows, create))

    def topics_matching(self, matches: Callable[[str], bool]) -> tuple[Topic, ...]:
        """By name, without internal ones."""
        found = self._patience.until_done("looking up all topics", lambda: self._topics(None))
        return tuple(topic for topic in found if not topic.is_internal and matches(topic.name))

    # Offsets

    def offsets(
        self, at: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | None]:
        """For each partition: EARLIEST, LATEST, or a moment in milliseconds, for the first record at or after it.

        None: there is no such record. LATEST is the high watermark, or with `read_committed` the last stable offset.
        Raises TopicMissing.
        """
        found: dict[TopicPartition, FoundOffset | None] = {}

        def attempt() -> None:
            left = {partition: position for partition, position in at.items() if partition not in found}
            self.each_leader(
                left,
                lambda connection, rows: found.update(
                    offset_requests.list_offsets(connection, rows, left, read_committed)
                ),
            )

        self._patience.until_done(f"looking up offsets of {listed(at)}", attempt)
        return {partition: found[partition] for partition in at}

    def epoch_ends(self, leader_epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Behind the last record of that epoch or, if it has none, of the newest one before it; -1 if none is known."""
        ends: dict[TopicPartition, int] = {}

        def attempt() -> None:
            self.each_leader(
                leader_epochs.keys() - ends.keys(),
                lambda connection, rows: ends.update(offset_requests.epoch_ends(connection, rows, leader_epochs)),
            )

        self._patience.until_done(f"looking up the ends of leader epochs in {listed(leader_epochs)}", attempt)
        return ends

    # Groups

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """None: nothing is committed there."""
        wanted = tuple(partitions)
        return self.at_coordinator(
            f"reading the committed offsets of group {group}",
            group,
            lambda connection: group_requests.committed(connection, group, wanted),
        )

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As a consumer outside of the group's membership does; ClientFailure if the group has members."""
        self.at_coordinator(
            f"committing offsets of group {group}",
            group,
            lambda connection: group_requests.commit(connection, group, offsets),
        )

    def describe_group(self, group: str) -> Group:
        return self.at_coordinator(
            f"describing group {group}", group, lambda connection: group_requests.describe(connection, group)
        )

    # What other requests are made of

    def leader(self, partition: TopicPartition) -> Leader:
        """Raises Again while there is none, TopicMissing if there is no such partition, NoAnswer."""
        known = self._leaders.get(partition)
        if known is not None:
            return known
        tries = 0
        while True:
            row = MetadataRequestTopic(topic_id=None, name=TopicName(partition.topic))
            topics = self._topics((row,))
            if partition in self._leaders:
                return self._leaders[partition]
            if any(partition in topic.topic_partitions for topic in topics):
                raise Again(f"{partition} has no leader")
            tries += 1
            if tries >= _MISSING_TRIES:
                raise TopicMissing(f"there is no partition {partition}")
            self._patience.pause()

    def forget_leader(self, partition: TopicPartition) -> None:
        """Somebody has said that it is another one."""
        self._leaders.pop(partition, None)

    def connection_to(self, leader: Leader) -> Connection:
        """Raises NoAnswer or Again."""
        return self._brokers.at(leader.node_id)

    def each_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Connection, dict[TopicPartition, Leader]], None],
    ) -> None:
        """`ask` once per leader; what it raises is raised when all were asked, and their leaders are looked up anew."""
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        for partition in partitions:
            leader = self.leader(partition)
            by_node.setdefault(leader.node_id, {})[partition] = leader
        failure: ClientFailure | None = None
        for node_id, rows in by_node.items():
            try:
                ask(self._brokers.at(node_id), rows)
            except ClientFailure as error:
                failure = error
                for partition in rows:
                    self.forget_leader(partition)
        if failure is not None:
            raise failure

    def at_coordinator(self, what: str, key: str, ask: Callable[[Connection], T], key_type: int = 0) -> T:
        """`ask` of who coordinates the group or, with `key_type` 1, the transactional id, however often it takes."""

        def attempt() -> T:
            node_id, address = group_requests.find_coordinator(self._brokers.any(), key, key_type)
            return ask(self._brokers.introduced(node_id, address))

        return self._patience.until_done(what, attempt)

    def at_any(self, ask: Callable[[Connection], T]) -> T:
        """Of whoever answers. Raises NoAnswer."""
        return ask(self._brokers.any())

    def patiently(self, what: str, attempt: Callable[[], T]) -> T:
        """Calls it again while it raises Again or NoAnswer, for as long as the settings say."""
        return self._patience.until_done(what, attempt)

    def _topics(self, rows: tuple[MetadataRequestTopic, ...] | None, create: bool = False) -> tuple[Topic, ...]:
        request = MetadataRequest(
            topics=rows, allow_auto_topic_creation=create, include_topic_authorized_operations=False
        )
        answer = self._brokers.any().ask(request, MetadataResponse)
        self._brokers.know({broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers})
        topics = [self._read(topic) for topic in answer.topics]
        return tuple(sorted(topic for topic in topics if topic is not None))

    def _read(self, row: MetadataResponseTopic) -> Topic | None:
        name = str(row.name or "")
        for known in [known for known in self._leaders if known.topic == name]:
            del self._leaders[known]
        if row.error_code in _GONE:
            return None
        if row.error_code is not ErrorCode.none:
            text = f"metadata of topic {name}: {row.error_code.name}"
            raise Again(text) if row.error_code.retriable else ClientFailure(text)
        if row.topic_id is None:
            raise ClientFailure(f"topic {name} has no id: Penstock, and Apache Kafka from 3.1 on, give them")
        for partition in row.partitions:
            if partition.leader_id >= 0 and partition.error_code in (ErrorCode.none, ErrorCode.replica_not_available):
                leader = Leader(partition.leader_id, partition.leader_epoch, row.topic_id)
                self._leaders[TopicPartition(name, partition.partition_index)] = leader
        partitions = tuple(sorted(int(partition.partition_index) for partition in row.partitions))
        return Topic(name, row.topic_id, partitions, row.is_internal)
