"""ListOffsets: the first offset, the next one, the one with the newest timestamp, or the first at or after a moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32, i64

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused
from penstock.later import Later, awaiting
from penstock.replication.offsets import Position, find_offset
from penstock.replication.replicas import Replicas
from penstock.wire.fetch import READ_COMMITTED


class ListOffsets:
    """With `read_committed`, the next one is the last stable offset, and nothing behind it is found."""

    api = Api(key=2, versions=(1, 11))

    def __init__(self, replicas: Replicas, pool: ThreadPoolExecutor) -> None:
        self._replicas = replicas
        self._pool = pool

    def start(self, request: ListOffsetsRequest, caller: Caller) -> Later[ListOffsetsResponse]:
        return awaiting(self._list_all(request))

    async def _list_all(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            reads_committed = request.isolation_level == READ_COMMITTED
            rows = [await self._row(topic.name, row, reads_committed) for row in topic.partitions]
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(rows)))
        return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))

    async def _row(self, topic: str, row: ListOffsetsPartition, reads_committed: bool) -> ListOffsetsPartitionResponse:
        partition = self._replicas.leader(topic, row.partition_index, row.current_leader_epoch)
        found = (
            partition
            if isinstance(partition, Refused)
            else await find_offset(partition, row.timestamp, self._pool, reads_committed=reads_committed)
        )
        if isinstance(found, Refused):
            return ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=code_of(found))
        return _found(row.partition_index, found)


def _found(index: i32, position: Position) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=NONE,
        timestamp=i64(position.timestamp_ms),
        offset=i64(position.offset),
        leader_epoch=i32(position.leader_epoch),
    )
