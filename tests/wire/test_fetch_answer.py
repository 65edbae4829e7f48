"""A follower reads what the leader's own codec packs and what kio writes, and refuses everything else."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.wire.messages import kio_bytes, messages

from penstock.wire.fetch_answer import FetchAnswer, PartitionAnswer, read_fetch_answer
from penstock.wire.fetch_response import pack_fetch_response
from penstock.wire.fetched import (
    AbortedTransaction,
    EpochEndOffset,
    FetchResponse,
    PartitionFetched,
    SnapshotId,
    TopicFetched,
)
from penstock.wire.leaders import LeaderIdAndEpoch, NodeEndpoint
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import FETCH, response_class

VERSIONS = (17, 18)
_EACH = settings(max_examples=15)
# Length, correlation id, no tagged fields.
_BODY_START = 9

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
epoch = st.integers(0, 2**31 - 1)
offset = st.integers(0, 2**63 - 1)
text = st.text(max_size=8)
uuids = st.uuids().filter(lambda value: value.int != 0)

partitions = st.builds(
    PartitionFetched,
    int32,
    st.sampled_from(ErrorCode),
    int64,
    int64,
    int64,
    st.none() | st.lists(st.builds(AbortedTransaction, int64, int64), max_size=3),
    int32,
    st.lists(st.binary(max_size=200), max_size=3),
    st.none() | st.builds(EpochEndOffset, epoch, offset),
    st.none() | st.builds(LeaderIdAndEpoch, epoch, epoch),
    st.none() | st.builds(SnapshotId, offset, epoch),
)
responses = st.builds(
    FetchResponse,
    st.lists(st.builds(TopicFetched, text, st.none() | uuids, st.lists(partitions, max_size=3)), max_size=3),
    st.sampled_from(ErrorCode),
    int32,
    st.lists(st.builds(NodeEndpoint, int32, text, int32, st.none() | text), max_size=2),
)


def packed(response: FetchResponse, version: int, throttle_ms: int) -> memoryview:
    return memoryview(b"".join(map(bytes, pack_fetch_response(response, version, 1, throttle_ms))))


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(response=responses, throttle_ms=st.integers(0, 2**31 - 1))
def test_a_follower_reads_what_the_leader_packs(version: int, response: FetchResponse, throttle_ms: int) -> None:
    answer = read_fetch_answer(packed(response, version, throttle_ms), _BODY_START)
    assert answer[:3] == (throttle_ms, response.error_code, response.session_id)
    assert [topic.topic_id for topic in answer.topics] == [topic.topic_id for topic in response.topics]
    assert [[seen(row) for row in topic.partitions] for topic in answer.topics] == [
        [said(row) for row in topic.partitions] for topic in response.topics
    ]


def seen(row: PartitionAnswer) -> tuple[Any, ...]:
    return (*row[:7], bytes(row.records), row.diverging_epoch, row.current_leader)


def said(row: PartitionFetched) -> tuple[Any, ...]:
    return (*row[:7], b"".join(map(bytes, row.records)), row.diverging_epoch, row.current_leader)


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(data=st.data())
def test_a_follower_reads_what_kio_writes(version: int, data: st.DataObject) -> None:
    sent = data.draw(messages(response_class(FETCH, version)))
    answer = read_fetch_answer(memoryview(kio_bytes(sent)), 0)
    assert timedelta(milliseconds=answer.throttle_ms) == sent.throttle_time
    assert (answer.error_code, answer.session_id) == (sent.error_code, sent.session_id)
    assert [(topic.topic_id, [seen(row) for row in topic.partitions]) for topic in answer.topics] == [
        (topic.topic_id, [kio_said(row) for row in topic.partitions]) for topic in sent.responses
    ]


def kio_said(row: Any) -> tuple[Any, ...]:
    aborted = row.aborted_transactions
    diverging, leader = row.diverging_epoch, row.current_leader
    return (
        row.partition_index,
        row.error_code,
        row.high_watermark,
        row.last_stable_offset,
        row.log_start_offset,
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        row.preferred_read_replica,
        row.records or b"",
        None if (diverging.epoch, diverging.end_offset) == (-1, -1) else (diverging.epoch, diverging.end_offset),
        None if (leader.leader_id, leader.leader_epoch) == (-1, -1) else (leader.leader_id, leader.leader_epoch),
    )


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(response=responses, data=st.data())
def test_an_answer_that_ends_early_is_refused_wherever_it_ends(
    version: int, response: FetchResponse, data: st.DataObject
) -> None:
    raw = packed(response, version, 0)
    end = data.draw(st.integers(_BODY_START, len(raw) - 1))
    with pytest.raises(Malformed):
        read_fetch_answer(raw[:end], _BODY_START)


@settings(max_examples=60)
@given(response=responses, data=st.data())
def test_spoiled_bytes_are_read_or_refused_and_nothing_else(response: FetchResponse, data: st.DataObject) -> None:
    raw = bytearray(packed(response, 18, 0))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(_BODY_START, len(raw) - 1))
        raw[at] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    try:
        answer = read_fetch_answer(memoryview(raw), _BODY_START)
    except Malformed:
        return
    sizes = [len(row.records) for topic in answer.topics for row in topic.partitions]
    assert sum(sizes) <= len(raw)


START = struct.pack(">ihi", 0, 0, 7)
TOPIC = b"\x02" + UUID(int=1).bytes
ROW = struct.pack(">ihqqq", 0, 0, 10, 10, 0) + b"\x00" + struct.pack(">i", -1)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x00\x00", "the bytes end before its topics"),
        (START + b"\x00", "responses: null"),
        (START + b"\xff\xff\xff\xff\x0f", "responses: 4294967294 elements announced"),
        (START + TOPIC + b"\x00\x00\x00", "partitions: null"),
        (START + TOPIC + b"\xff\xff\xff\xff\x0f", "partitions: 4294967294 elements announced"),
        (START + TOPIC + b"\x02" + ROW + b"\xff\xff\xff\xff\x0f\x00", "records: length 4294967294"),
        (START + TOPIC + b"\x02" + ROW + b"\x01\x01\x00\x03abc\x00\x00", "diverging_epoch: tagged field of 3 bytes"),
        (
            START + TOPIC + b"\x02" + ROW + b"\x01\x01\x01\x0a" + bytes(10) + b"\x00\x00",
            "current_leader: tagged field of 9 bytes said to have 10",
        ),
        (struct.pack(">ihi", 0, 12345, 7) + b"\x01\x00", "unknown error code 12345"),
    ],
)
def test_lies_are_named(raw: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_fetch_answer(memoryview(raw), 0)


def test_more_rows_than_any_broker_has_are_refused() -> None:
    rows = 100_001
    count = bytes((((rows + 1) & 0x7F) | 0x80, ((rows + 1) >> 7 & 0x7F) | 0x80, (rows + 1) >> 14))
    with pytest.raises(Malformed, match="elements in one request"):
        read_fetch_answer(memoryview(START + TOPIC + count + bytes(40 * rows)), 0)


def test_records_are_views_until_they_are_released() -> None:
    buffer = bytearray(
        packed(FetchResponse([TopicFetched("", UUID(int=1), [PartitionFetched(0, records=[b"abc"])])]), 18, 0)
    )
    answer: FetchAnswer = read_fetch_answer(memoryview(buffer), _BODY_START)
    records = answer.topics[0].partitions[0].records
    buffer[buffer.index(b"abc")] = ord("x")
    assert bytes(records) == b"xbc"
    answer.release()
    with pytest.raises(ValueError, match="released"):
        bytes(records)
