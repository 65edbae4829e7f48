"""OffsetFetch: one group per request up to version 7, several from 8; topics by name up to 9, by id from 10."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest as SingleRequest
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions
from kio.static.primitive import i32, i64

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_GROUP_ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """Either the name or the id is given."""

    name: str = ""
    topic_id: UUID | None = None
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    # None: every topic that the group has committed.
    topics: tuple[OffsetFetchRequestTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """Name and id as far as they are known; each version takes what it can say."""

    name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """With an error, version 1 still needs the rows that were asked for: it has no other place for the error."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...]
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    groups: tuple[OffsetFetchResponseGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SingleResponse:
    topics: tuple[OffsetFetchResponseTopic, ...]
    error_code: ErrorCode


def _lift(request: SingleRequest) -> OffsetFetchRequest:
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return OffsetFetchRequest(groups=(group,), require_stable=request.require_stable)


def _lower(response: OffsetFetchResponse) -> _SingleResponse:
    (group,) = response.groups
    return _SingleResponse(topics=group.topics, error_code=group.error_code)


def _adjust(response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    if version >= _FIRST_WITH_GROUP_ERROR:
        return response
    return replace(response, groups=tuple(map(_with_errors_in_rows, response.groups)))


def _with_errors_in_rows(group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
    if group.error_code is ErrorCode.none:
        return group
    return replace(
        group,
        topics=tuple(
            replace(topic, partitions=tuple(_failed(row.partition_index, group.error_code) for row in topic.partitions))
            for topic in group.topics
        ),
    )


def _failed(partition_index: i32, error_code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition_index, committed_offset=i64(-1), metadata="", error_code=error_code
    )


LIFT = Lift(
    api_key=9,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    pivot=7,
    lift_pivot=_lift,
    lower_pivot=_lower,
    adjust_response=_adjust,
)
