"""OffsetCommit: topics by name up to version 9, by id from 10; retention per commit up to 4; newer errors from 9."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_MEMBER_EPOCH = 9
# What a client older than that is told instead.
_OLDER_ERRORS = {
    ErrorCode.stale_member_epoch: ErrorCode.unsupported_version,
    ErrorCode.group_id_not_found: ErrorCode.illegal_generation,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """Either the name or the id is given."""

    name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str
    group_instance_id: str | None = None
    # Negative: as long as the broker keeps offsets.
    retention_time: timedelta = timedelta(milliseconds=-1)
    topics: tuple[OffsetCommitRequestTopic, ...]
    # The caller's version has the member epochs of KIP-848.
    knows_member_epochs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """Name and id as far as they are known; each version takes what it can say."""

    name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    topics: tuple[OffsetCommitResponseTopic, ...]


def _adjust_request(request: OffsetCommitRequest, version: int) -> OffsetCommitRequest:
    return request if version >= _FIRST_WITH_MEMBER_EPOCH else replace(request, knows_member_epochs=False)


def _adjust_response(response: OffsetCommitResponse, version: int) -> OffsetCommitResponse:
    if version >= _FIRST_WITH_MEMBER_EPOCH:
        return response
    return replace(response, topics=tuple(map(_with_older_errors, response.topics)))


def _with_older_errors(topic: OffsetCommitResponseTopic) -> OffsetCommitResponseTopic:
    if not any(row.error_code in _OLDER_ERRORS for row in topic.partitions):
        return topic
    rows = (replace(row, error_code=_OLDER_ERRORS.get(row.error_code, row.error_code)) for row in topic.partitions)
    return replace(topic, partitions=tuple(rows))


LIFT = Lift(
    api_key=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    adjust_request=_adjust_request,
    adjust_response=_adjust_response,
)
