"""What is answered to Fetch. Apart from its packing, as `produced.py` is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.wire.leaders import LeaderIdAndEpoch, NodeEndpoint
from penstock.wire.stored_batches import StoredBatches

Buffer = bytes | bytearray | memoryview


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int


class PartitionFetched(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # None for readers of uncommitted records, who do not look at it.
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    # Whole batches over one or more buffers of bytes. Null is never sent: some clients take it for an error.
    records: Sequence[Buffer | StoredBatches] = ()
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None


class TopicFetched(NamedTuple):
    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionFetched]


class FetchResponse(NamedTuple):
    topics: Sequence[TopicFetched]
    error_code: ErrorCode = ErrorCode.none
    session_id: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()
