"""What is asked of the coordinator of a consumer group by somebody who is no member of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from penstock.config.address import Address
from penstock.spark.connection import Connection
from penstock.spark.core.failures import Again
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.offset_requests import by_topic, check

_NO_GENERATION = i32(-1)
_NOTHING = -1


class Group(NamedTuple):
    """`state` in Kafka's words; "Dead" if there is none of that name."""

    name: str
    state: str
    # Client ids, one per member.
    members: tuple[str, ...]


def find_coordinator(connection: Connection, key: str, key_type: int) -> tuple[int, Address]:
    request = FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=(key,))
    for row in connection.ask(request, FindCoordinatorResponse).coordinators:
        if row.key == key:
            check(row.error_code, f"the coordinator of {key}", connection)
            return row.node_id, Address(row.host, row.port)
    raise Again(f"{connection.address} did not say who coordinates {key}")


def committed(
    connection: Connection, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    wanted = tuple(partitions)
    topics = tuple(
        OffsetFetchRequestTopics(name=TopicName(topic), partition_indexes=tuple(i32(row.partition) for row in rows))
        for topic, rows in by_topic(wanted)
    )
    # Stable ones: an offset that a transaction is about to commit is worth the wait.
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=GroupId(group), topics=topics),), require_stable=True
    )
    found: dict[TopicPartition, int | None] = dict.fromkeys(wanted)
    for answered in connection.ask(request, OffsetFetchResponse).groups:
        check(answered.error_code, f"the offsets of group {group}", connection)
        for topic in answered.topics:
            for row in topic.partitions:
                partition = TopicPartition(str(topic.name), row.partition_index)
                check(row.error_code, f"the offset of group {group} in {partition}", connection)
                found[partition] = None if row.committed_offset == _NOTHING else row.committed_offset
    return found


def commit(connection: Connection, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    topics = tuple(
        OffsetCommitRequestTopic(
            name=TopicName(topic),
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=i32(row.partition), committed_offset=i64(offsets[row]), committed_metadata=""
                )
                for row in rows
            ),
        )
        for topic, rows in by_topic(offsets)
    )
    request = OffsetCommitRequest(
        group_id=GroupId(group), generation_id_or_member_epoch=_NO_GENERATION, member_id="", topics=topics
    )
    for topic in connection.ask(request, OffsetCommitResponse).topics:
        for row in topic.partitions:
            partition = TopicPartition(str(topic.name), row.partition_index)
            check(row.error_code, f"the offset of group {group} in {partition}", connection)


def describe(connection: Connection, group: str) -> Group:
    """Of either protocol: a group that is not of the older one is looked up as one of KIP-848."""
    answer = connection.ask(
        DescribeGroupsRequest(groups=(GroupId(group),), include_authorized_operations=False), DescribeGroupsResponse
    )
    for row in answer.groups:
        if row.error_code is not ErrorCode.group_id_not_found:
            check(row.error_code, f"group {group}", connection)
        if row.group_state not in ("", "Dead"):
            return Group(group, row.group_state, tuple(member.client_id for member in row.members))
    if not connection.speaks(ConsumerGroupDescribeRequest):
        return Group(group, "Dead", ())
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
    for described in connection.ask(request, ConsumerGroupDescribeResponse).groups:
        if described.error_code is ErrorCode.none:
            return Group(group, described.group_state, tuple(member.client_id for member in described.members))
        if described.error_code is not ErrorCode.group_id_not_found:
            check(described.error_code, f"group {group}", connection)
    return Group(group, "Dead", ())
