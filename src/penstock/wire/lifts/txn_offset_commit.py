"""TxnOffsetCommit: from version 5 on it stands for AddOffsetsToTxn as well (KIP-890), which no field says; and errors

that older clients do not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestTopic
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic

from penstock.wire.lifts.lift import Lift

_FIRST_THAT_ADDS = 5
_FIRST_WITH_ABORTABLE = 4
# Older producers take an error for final that says that the coordinator is loading.
_FIRST_WITH_LOADING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]
    # No AddOffsetsToTxn came before.
    adds_offsets: bool = False


def _adjust_request(request: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitRequest:
    return replace(request, adds_offsets=True) if version >= _FIRST_THAT_ADDS else request


def _adjust_response(response: TxnOffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    # In no version do producers expect to be fenced by the group's coordinator in these words.
    known = {ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch}
    if version < _FIRST_WITH_ABORTABLE:
        known[ErrorCode.transaction_abortable] = ErrorCode.invalid_txn_state
    if version < _FIRST_WITH_LOADING:
        known[ErrorCode.coordinator_load_in_progress] = ErrorCode.coordinator_not_available
    if not any(row.error_code in known for topic in response.topics for row in topic.partitions):
        return response
    return replace(response, topics=tuple(_with_errors(topic, known) for topic in response.topics))


def _with_errors(
    topic: TxnOffsetCommitResponseTopic, known: dict[ErrorCode, ErrorCode]
) -> TxnOffsetCommitResponseTopic:
    rows = (replace(row, error_code=known.get(row.error_code, row.error_code)) for row in topic.partitions)
    return replace(topic, partitions=tuple(rows))


LIFT = Lift(
    api_key=28, request=TxnOffsetCommitRequest, adjust_request=_adjust_request, adjust_response=_adjust_response
)
