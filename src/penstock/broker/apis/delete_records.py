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
from penstock.replication.record_deletion import RecordDeletion, Wanted


class DeleteRecords:
    """The new start is on disk, with all live replicas, when the answer comes; space is freed segment by segment."""

    api = Api(key=21, versions=(0, 2))

    def __init__(self, deletion: RecordDeletion) -> None:
        self._deletion = deletion

    def start(self, request: DeleteRecordsRequest, caller: Caller) -> Later[DeleteRecordsResponse]:
        return awaiting(self._delete_all(request))

    async def _delete_all(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        wanted = [
            Wanted(topic.name, row.partition_index, row.offset) for topic in request.topics for row in topic.partitions
        ]
        deleted = iter(await self._deletion.delete(wanted, milliseconds(request.timeout)))
        topics = tuple(
            DeleteRecordsTopicResult(
                name=topic.name, partitions=tuple(_result(row, next(deleted)) for row in topic.partitions)
            )
            for topic in request.topics
        )
        return DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=topics)


def _result(row: DeleteRecordsPartition, deleted: int | Refused) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=row.partition_index,
        low_watermark=i64(-1 if isinstance(deleted, Refused) else deleted),
        error_code=code_of(deleted) if isinstance(deleted, Refused) else NONE,
    )
