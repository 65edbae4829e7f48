"""What is answered to Produce.

Apart from its packing, which is compiled: `broker/refusals.py` looks at the types of fields, and of a compiled class it
would not see what a sequence is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.wire.leaders import LeaderIdAndEpoch, NodeEndpoint


class RecordError(NamedTuple):
    batch_index: int
    message: str | None = None


class PartitionProduced(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    # -1 unless the topic has LogAppendTime.
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


class TopicProduced(NamedTuple):
    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionProduced]


class ProduceResponse(NamedTuple):
    topics: Sequence[TopicProduced]
    node_endpoints: Sequence[NodeEndpoint] = ()


class OneProduced(NamedTuple):
    """What most answers are: one batch is in its log, and that is all."""

    name: str
    topic_id: UUID | None
    partition_index: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int

    @property
    def topics(self) -> Sequence[TopicProduced]:
        name, topic_id, index, base_offset, append_time_ms, start_offset = self
        row = PartitionProduced(index, ErrorCode.none, base_offset, append_time_ms, start_offset)
        return (TopicProduced(name, topic_id, (row,)),)

    @property
    def node_endpoints(self) -> Sequence[NodeEndpoint]:
        return ()


Produced = OneProduced | ProduceResponse
