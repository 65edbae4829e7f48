"""DeleteRecords: a partition's start moves up to an offset; -1 means the high watermark."""

from __future__ import annotations

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.static.primitive import i64

from penstock.broker.api import NO_THROTTLE, Api, Caller, milliseconds
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused
from penstock.later import Later, awaiting
from penstock.replication.replicas import Replicas


class DeleteRecords:
    """The new start is on disk, with all live replicas, when the answer comes; space is freed segment by segment."""

    api = Api(key=21, versions=(0, 2))

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def start(self, request: DeleteRecordsRequest, caller: Caller) -> Later[DeleteRecordsResponse]:
        return awaiting(self._delete_all(request))

    async def _delete_all(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        topics = []
        for topic in request.topics:
            rows = [await self._delete(topic.name, row, milliseconds(request.timeout)) for row in topic.partitions]
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(rows)))
        return DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))

    async def _delete(self, topic: str, row: DeleteRecordsPartition, timeout_ms: int) -> DeleteRecordsPartitionResult:
        start_offset = await self._replicas.delete_records(topic, row.partition_index, row.offset, timeout_ms)
        return DeleteRecordsPartitionResult(
            partition_index=row.partition_index,
            low_watermark=i64(-1 if isinstance(start_offset, Refused) else start_offset),
            error_code=code_of(start_offset) if isinstance(start_offset, Refused) else NONE,
        )
