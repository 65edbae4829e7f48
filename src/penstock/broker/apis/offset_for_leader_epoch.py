"""OffsetForLeaderEpoch: where an epoch of the log ends, so that a client can tell whether it read what was cut off."""

from __future__ import annotations

from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.static.primitive import i32, i64

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.errors import Refused
from penstock.replication.replicas import Replicas


class OffsetForLeaderEpoch:
    api = Api(key=23, versions=(2, 4))

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def start(self, request: OffsetForLeaderEpochRequest, caller: Caller) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=tuple(self._row(topic.topic, row) for row in topic.partitions)
                )
                for topic in request.topics
            ),
        )

    def _row(self, topic: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self._replicas.leader(topic, row.partition, row.current_leader_epoch)
        if isinstance(partition, Refused):
            return EpochEndOffset(error_code=code_of(partition), partition=row.partition)
        end = partition.log.end_offset_for_epoch(row.leader_epoch)
        return EpochEndOffset(
            error_code=NONE,
            partition=row.partition,
            leader_epoch=i32(end.epoch),
            end_offset=i64(end.end_offset),
        )
