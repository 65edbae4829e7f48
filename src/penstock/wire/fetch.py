"""Fetch requests, versions 4 to 18, into one shape. Fixed-size rows are unpacked by the hundred, not one by one."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from uuid import UUID

from penstock.wire.bounds import (
    ElementBudget,
    read_count,
    read_present_string,
    read_string,
    read_tag,
    read_varint,
    skip_tagged_fields,
    uuid_of,
)
from penstock.wire.malformed import Malformed
from penstock.wire.tuples import new_tuple

_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_SESSION: Final = 7
_FIRST_WITH_LEADER_EPOCH: Final = 9
_FIRST_WITH_RACK: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_ID: Final = 13
_FIRST_WITH_REPLICA_STATE: Final = 15
_FIRST_WITH_DIRECTORY_ID: Final = 17
_FIRST_WITH_HIGH_WATERMARK: Final = 18

# Not the follower's view of the high watermark, but that it does not say (KIP-1166).
UNKNOWN_HIGH_WATERMARK: Final = 2**63 - 1
CONSUMER: Final = -1
# An isolation level, of Fetch and ListOffsets: nothing of transactions that are open or aborted.
READ_COMMITTED: Final = 1

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
# Replica id, max wait, min bytes, max bytes, isolation level; session id and epoch.
_START_4: Final = struct.Struct(">iiiib")
_START_7: Final = struct.Struct(">iiiibii")
_START_15: Final = struct.Struct(">iiibii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_ROW_4: Final = struct.Struct(">iqi")
_ROW_5: Final = struct.Struct(">iqqi")
_ROW_9: Final = struct.Struct(">iiqqi")
_ROW_12: Final = struct.Struct(">iiqiqi")
# With an empty set of tagged fields behind each.
_ROW_12_PLAIN: Final = struct.Struct(">iiqiqiB")
_UUID_BYTES: Final = 16


class PartitionFetch(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = UNKNOWN_HIGH_WATERMARK


class TopicFetch(NamedTuple):
    """By name up to version 12, by id from 13."""

    name: str
    topic_id: UUID | None
    partitions: list[PartitionFetch]


class ForgottenTopic(NamedTuple):
    name: str
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[TopicFetch]
    forgotten_topics: list[ForgottenTopic]
    rack_id: str
    cluster_id: str | None


def read_fetch_request(frame: memoryview, body_start: int, version: int) -> FetchRequest:
    compact = version >= _FIRST_FLEXIBLE
    budget = ElementBudget()
    session_id, session_epoch = 0, -1
    replica_id, replica_epoch = CONSUMER, -1
    layout = (
        _START_15 if version >= _FIRST_WITH_REPLICA_STATE else _START_7 if version >= _FIRST_WITH_SESSION else _START_4
    )
    try:
        start = layout.unpack_from(frame, body_start)
    except struct.error:
        raise Malformed("FetchRequest", "the bytes end before its topics") from None
    if version < _FIRST_WITH_REPLICA_STATE:
        replica_id, start = start[0], start[1:]
    max_wait_ms, min_bytes, max_bytes, isolation_level = start[:4]
    if version >= _FIRST_WITH_SESSION:
        session_id, session_epoch = start[4:]
    topics, at = _read_topics(frame, body_start + layout.size, version, compact, budget)
    forgotten: list[ForgottenTopic] = []
    if version >= _FIRST_WITH_SESSION:
        forgotten, at = _read_forgotten_topics(frame, at, version, compact, budget)
    rack_id, cluster_id = "", None
    if version >= _FIRST_WITH_RACK:
        rack_id, at = read_present_string(frame, at, compact, "FetchRequest.rack_id")
    if compact:
        cluster_id, replica_id, replica_epoch = _read_tags(frame, at, version, replica_id, budget)
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
    )


def _read_topics(
    frame: memoryview, at: int, version: int, compact: bool, budget: ElementBudget
) -> tuple[list[TopicFetch], int]:
    where = "FetchRequest.topics"
    count, at = read_count(frame, at, compact, 3, budget, where)
    _must_be_there(count, where)
    topics = []
    for _ in range(count):
        name, topic_id, at = _read_topic_name(frame, at, version, compact, where)
        partitions, at = _read_partitions(frame, at, version, budget)
        if compact:
            at = skip_tagged_fields(frame, at, budget, where)
        topics.append(TopicFetch(name, topic_id, partitions))
    return topics, at


def _read_forgotten_topics(
    frame: memoryview, at: int, version: int, compact: bool, budget: ElementBudget
) -> tuple[list[ForgottenTopic], int]:
    where = "FetchRequest.forgotten_topics_data"
    count, at = read_count(frame, at, compact, 3, budget, where)
    _must_be_there(count, where)
    topics = []
    for _ in range(count):
        name, topic_id, at = _read_topic_name(frame, at, version, compact, where)
        partitions, at = read_count(frame, at, compact, 4, budget, where)
        _must_be_there(partitions, where)
        indexes = struct.unpack_from(f">{partitions}i", frame, at)
        at += 4 * partitions
        if compact:
            at = skip_tagged_fields(frame, at, budget, where)
        topics.append(ForgottenTopic(name, topic_id, indexes))
    return topics, at


def _read_topic_name(
    frame: memoryview, at: int, version: int, compact: bool, where: str
) -> tuple[str, UUID | None, int]:
    if version < _FIRST_WITH_TOPIC_ID:
        name, at = read_present_string(frame, at, compact, f"{where}.topic")
        return name, None, at
    end = at + _UUID_BYTES
    if end > len(frame):
        raise Malformed(f"{where}.topic_id", "the bytes end before it")
    return "", uuid_of(bytes(frame[at:end])), end


def _read_partitions(
    frame: memoryview, at: int, version: int, budget: ElementBudget
) -> tuple[list[PartitionFetch], int]:
    where = "FetchRequest.topics.partitions"
    if version >= _FIRST_FLEXIBLE:
        return _read_flexible_partitions(frame, at, version, budget)
    row = _ROW_9 if version >= _FIRST_WITH_LEADER_EPOCH else _ROW_5 if version >= _FIRST_WITH_LOG_START else _ROW_4
    count, at = read_count(frame, at, False, row.size, budget, where)
    _must_be_there(count, where)
    end = at + count * row.size
    rows = row.iter_unpack(frame[at:end])
    if row is _ROW_9:
        return [PartitionFetch(p, epoch, offset, -1, start, most) for p, epoch, offset, start, most in rows], end
    if row is _ROW_5:
        return [PartitionFetch(p, -1, offset, -1, start, most) for p, offset, start, most in rows], end
    return [PartitionFetch(p, -1, offset, -1, -1, most) for p, offset, most in rows], end


def _read_flexible_partitions(
    frame: memoryview, at: int, version: int, budget: ElementBudget
) -> tuple[list[PartitionFetch], int]:
    where = "FetchRequest.topics.partitions"
    count, at = read_count(frame, at, True, _ROW_12_PLAIN.size, budget, where)
    _must_be_there(count, where)
    end = at + count * _ROW_12_PLAIN.size
    rows = list(_ROW_12_PLAIN.iter_unpack(frame[at:end]))
    if not any(row[6] for row in rows):
        # Without what the tags would say.
        rest = (None, UNKNOWN_HIGH_WATERMARK)
        return [new_tuple(PartitionFetch, row[:6] + rest) for row in rows], end
    partitions = []
    for _ in range(count):
        try:
            fields = _ROW_12.unpack_from(frame, at)
        except struct.error:
            raise Malformed(where, "the bytes end inside a row") from None
        directory_id, high_watermark, at = _read_partition_tags(frame, at + _ROW_12.size, version, budget)
        partitions.append(PartitionFetch._make((*fields, directory_id, high_watermark)))
    return partitions, at


def _read_partition_tags(
    frame: memoryview, at: int, version: int, budget: ElementBudget
) -> tuple[UUID | None, int, int]:
    where = "FetchRequest.topics.partitions"
    directory_id, high_watermark = None, UNKNOWN_HIGH_WATERMARK
    count, at = read_varint(frame, at, where)
    tag = -1
    for _ in range(count):
        tag, size, at = read_tag(frame, at, tag, budget, where)
        if tag == 0 and version >= _FIRST_WITH_DIRECTORY_ID:
            _must_have(size, _UUID_BYTES, f"{where}.replica_directory_id")
            directory_id = uuid_of(bytes(frame[at : at + size]))
        elif tag == 1 and version >= _FIRST_WITH_HIGH_WATERMARK:
            _must_have(size, _INT64.size, f"{where}.high_watermark")
            (high_watermark,) = _INT64.unpack_from(frame, at)
        at += size
    return directory_id, high_watermark, at


def _read_tags(
    frame: memoryview, at: int, version: int, replica_id: int, budget: ElementBudget
) -> tuple[str | None, int, int]:
    cluster_id, replica_epoch = None, -1
    count, at = read_varint(frame, at, "FetchRequest")
    tag = -1
    for _ in range(count):
        tag, size, at = read_tag(frame, at, tag, budget, "FetchRequest")
        if tag == 0:
            cluster_id, end = read_string(frame, at, True, "FetchRequest.cluster_id")
            _must_have(size, end - at, "FetchRequest.cluster_id")
        elif tag == 1 and version >= _FIRST_WITH_REPLICA_STATE:
            where = "FetchRequest.replica_state"
            if size <= _REPLICA_STATE.size:
                raise Malformed(where, f"tagged field of {size} bytes")
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(frame, at)
            end = skip_tagged_fields(frame, at + _REPLICA_STATE.size, budget, where)
            _must_have(size, end - at, where)
        at += size
    return cluster_id, replica_id, replica_epoch


def _must_be_there(count: int, where: str) -> None:
    if count < 0:
        raise Malformed(where, "null, but it must be there")


def _must_have(size: int, expected: int, where: str) -> None:
    if size != expected:
        raise Malformed(where, f"tagged field of {expected} bytes said to have {size}")
