"""Fetch answers as a follower reads them, versions 16 to 18: records stay where they were received.

What `wire/fetch_response.py` packs, this reads. A peer is believed no more than a client: every count and length is
checked against the bytes that are there, and anything else is `Malformed`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.wire.bounds import (
    ElementBudget,
    read_count,
    read_size,
    read_tag,
    read_varint,
    skip_tagged_fields,
    uuid_of,
)
from penstock.wire.fetched import AbortedTransaction, EpochEndOffset
from penstock.wire.leaders import LeaderIdAndEpoch
from penstock.wire.malformed import Malformed

# Throttle time, error code, session id.
_START = struct.Struct(">ihi")
# Index, error code, high watermark, last stable offset, log start offset.
_ROW = struct.Struct(">ihqqq")
_INT32 = struct.Struct(">i")
_ABORTED = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")
_UUID_BYTES = 16
# A topic's id, no partitions, no tagged fields.
_LEAST_TOPIC_BYTES = _UUID_BYTES + 2
# A row, no aborted transactions, a read replica, no records, no tagged fields.
_LEAST_ROW_BYTES = _ROW.size + _INT32.size + 3
_CODES: dict[int, ErrorCode] = {int(code): code for code in ErrorCode}


class PartitionAnswer(NamedTuple):
    partition: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: int
    # Whole batches, as the peer says; not looked at. A view of the receive buffer.
    records: memoryview
    diverging_epoch: EpochEndOffset | None
    current_leader: LeaderIdAndEpoch | None


class TopicAnswer(NamedTuple):
    topic_id: UUID | None
    partitions: list[PartitionAnswer]


class FetchAnswer(NamedTuple):
    throttle_ms: int
    error_code: ErrorCode
    session_id: int
    topics: list[TopicAnswer]

    def release(self) -> None:
        """The buffer is wanted back: whoever looks at records from now on gets a ValueError, not others' bytes."""
        for topic in self.topics:
            for row in topic.partitions:
                row.records.release()


def read_fetch_answer(frame: memoryview, body_start: int) -> FetchAnswer:
    """Raises `Malformed`. The records are views of `frame`: call `release` before its bytes change."""
    budget = ElementBudget()
    try:
        throttle_ms, error_code, session_id = _START.unpack_from(frame, body_start)
    except struct.error:
        raise Malformed("FetchResponse", "the bytes end before its topics") from None
    topics, at = _read_topics(frame, body_start + _START.size, budget)
    # Where the leaders are (KIP-951): brokers know that from the controller.
    skip_tagged_fields(frame, at, budget, "FetchResponse")
    return FetchAnswer(throttle_ms, _code(error_code, "FetchResponse"), session_id, topics)


def _read_topics(frame: memoryview, at: int, budget: ElementBudget) -> tuple[list[TopicAnswer], int]:
    where = "FetchResponse.responses"
    count, at = read_count(frame, at, True, _LEAST_TOPIC_BYTES, budget, where)
    _must_be_there(count, where)
    topics = []
    for _ in range(count):
        end = at + _UUID_BYTES
        if end > len(frame):
            raise Malformed(f"{where}.topic_id", "the bytes end before it")
        topic_id = uuid_of(bytes(frame[at:end]))
        partitions, at = _read_partitions(frame, end, budget)
        at = skip_tagged_fields(frame, at, budget, where)
        topics.append(TopicAnswer(topic_id, partitions))
    return topics, at


def _read_partitions(frame: memoryview, at: int, budget: ElementBudget) -> tuple[list[PartitionAnswer], int]:
    where = "FetchResponse.responses.partitions"
    count, at = read_count(frame, at, True, _LEAST_ROW_BYTES, budget, where)
    _must_be_there(count, where)
    partitions = []
    try:
        for _ in range(count):
            index, error_code, high_watermark, last_stable_offset, log_start_offset = _ROW.unpack_from(frame, at)
            aborted, at = _read_aborted(frame, at + _ROW.size, budget)
            (preferred_read_replica,) = _INT32.unpack_from(frame, at)
            size, at = read_size(frame, at + _INT32.size, True, f"{where}.records")
            end = at + max(0, size)
            if end > len(frame):
                raise Malformed(f"{where}.records", f"length {size} with {len(frame) - at} bytes left")
            diverging_epoch, current_leader, behind = _read_tags(frame, end, budget)
            partitions.append(
                PartitionAnswer(
                    index,
                    _code(error_code, where),
                    high_watermark,
                    last_stable_offset,
                    log_start_offset,
                    aborted,
                    preferred_read_replica,
                    frame[at:end],
                    diverging_epoch,
                    current_leader,
                )
            )
            at = behind
    except struct.error:
        raise Malformed(where, "the bytes end inside a row") from None
    return partitions, at


def _read_aborted(frame: memoryview, at: int, budget: ElementBudget) -> tuple[list[AbortedTransaction] | None, int]:
    where = "FetchResponse.responses.partitions.aborted_transactions"
    count, at = read_count(frame, at, True, _ABORTED.size + 1, budget, where)
    if count < 0:
        return None, at
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction._make(_ABORTED.unpack_from(frame, at)))
        at = skip_tagged_fields(frame, at + _ABORTED.size, budget, where)
    return aborted, at


def _read_tags(
    frame: memoryview, at: int, budget: ElementBudget
) -> tuple[EpochEndOffset | None, LeaderIdAndEpoch | None, int]:
    where = "FetchResponse.responses.partitions"
    diverging_epoch, current_leader = None, None
    count, at = read_varint(frame, at, where)
    tag = -1
    for _ in range(count):
        tag, size, at = read_tag(frame, at, tag, budget, where)
        if tag == 0:
            diverging_epoch = EpochEndOffset._make(_read_pair(_EPOCH_END, frame, at, size, budget, "diverging_epoch"))
        elif tag == 1:
            current_leader = LeaderIdAndEpoch._make(_read_pair(_LEADER, frame, at, size, budget, "current_leader"))
        at += size
    return diverging_epoch, current_leader, at


def _read_pair(
    layout: struct.Struct, frame: memoryview, at: int, size: int, budget: ElementBudget, name: str
) -> tuple[int, int]:
    """A tagged structure of two numbers."""
    where = f"FetchResponse.responses.partitions.{name}"
    if size <= layout.size:
        raise Malformed(where, f"tagged field of {size} bytes")
    first, second = layout.unpack_from(frame, at)
    end = skip_tagged_fields(frame, at + layout.size, budget, where)
    if end != at + size:
        raise Malformed(where, f"tagged field of {end - at} bytes said to have {size}")
    return first, second


def _code(value: int, where: str) -> ErrorCode:
    code = _CODES.get(value)
    if code is None:
        raise Malformed(where, f"unknown error code {value}")
    return code


def _must_be_there(count: int, where: str) -> None:
    if count < 0:
        raise Malformed(where, "null, but it must be there")
