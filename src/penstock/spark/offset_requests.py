"""ListOffsets and OffsetForLeaderEpoch, for all partitions of one leader at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from penstock.spark.connection import Connection
from penstock.spark.core.failures import Again, ClientFailure
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.core.topics import FoundOffset, Leader

_CONSUMER = BrokerId(-1)
_NOT_FOUND = -1


def list_offsets(
    connection: Connection,
    rows: Mapping[TopicPartition, Leader],
    at: Mapping[TopicPartition, int],
    read_committed: bool,
) -> dict[TopicPartition, FoundOffset | None]:
    """Raises Again or ClientFailure for the first that was refused."""
    topics = tuple(
        ListOffsetsTopic(
            name=TopicName(topic),
            partitions=tuple(
                ListOffsetsPartition(
                    partition_index=i32(row.partition),
                    current_leader_epoch=i32(rows[row].leader_epoch),
                    timestamp=i64(at[row]),
                )
                for row in partitions
            ),
        )
        for topic, partitions in by_topic(rows)
    )
    request = ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=i8(read_committed), topics=topics)
    answer = connection.ask(request, ListOffsetsResponse)
    found: dict[TopicPartition, FoundOffset | None] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            partition = TopicPartition(str(topic.name), row.partition_index)
            check(row.error_code, f"offsets of {partition}", connection)
            found[partition] = None if row.offset == _NOT_FOUND else FoundOffset(row.offset, row.leader_epoch)
    _check_all_there(found, rows, connection)
    return found


def epoch_ends(
    connection: Connection, rows: Mapping[TopicPartition, Leader], leader_epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Raises Again or ClientFailure for the first that was refused."""
    topics = tuple(
        OffsetForLeaderTopic(
            topic=TopicName(topic),
            partitions=tuple(
                OffsetForLeaderPartition(
                    partition=i32(row.partition),
                    current_leader_epoch=i32(rows[row].leader_epoch),
                    leader_epoch=i32(leader_epochs[row]),
                )
                for row in partitions
            ),
        )
        for topic, partitions in by_topic(rows)
    )
    request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)
    answer = connection.ask(request, OffsetForLeaderEpochResponse)
    ends: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            partition = TopicPartition(str(topic.topic), row.partition)
            check(row.error_code, f"the end of a leader epoch in {partition}", connection)
            ends[partition] = row.end_offset
    _check_all_there(ends, rows, connection)
    return ends


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    return [(topic, list(rows)) for topic, rows in groupby(sorted(partitions), key=lambda row: row.topic)]


def check(code: ErrorCode, what: str, connection: Connection) -> None:
    """Raises Again or ClientFailure, with who said what of what."""
    if code is not ErrorCode.none:
        text = f"{connection.address} says of {what}: {code.name}"
        raise Again(text) if code.retriable else ClientFailure(text)


def _check_all_there(found: Iterable[TopicPartition], rows: Iterable[TopicPartition], connection: Connection) -> None:
    missing = set(rows) - set(found)
    if missing:
        raise Again(f"{connection.address} did not answer for {', '.join(map(str, sorted(missing)))}")
