"""The hand-written Produce codec agrees with kio in every version, and copies no records."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.wire.messages import kio_bytes, kio_message, messages

from penstock.wire.leaders import LeaderIdAndEpoch, NodeEndpoint
from penstock.wire.malformed import Malformed
from penstock.wire.produce import read_produce_request
from penstock.wire.produce_response import pack_produce_response
from penstock.wire.produced import OneProduced, PartitionProduced, Produced, ProduceResponse, RecordError, TopicProduced
from penstock.wire.schemas import PRODUCE, request_class, response_class

VERSIONS = range(3, 14)
_EACH = settings(max_examples=12)
_HEADER = b"header"

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(max_size=8)

partitions = st.builds(
    PartitionProduced,
    int32,
    st.sampled_from(ErrorCode),
    int64,
    st.just(-1) | st.integers(0, 2**31).map(lambda seconds: seconds * 1000),
    int64,
    st.lists(st.builds(RecordError, int32, st.none() | text), max_size=3),
    st.none() | text,
    st.none() | st.builds(LeaderIdAndEpoch, st.integers(0, 100), int32),
)
topics = st.builds(TopicProduced, text, st.none() | st.uuids(), st.lists(partitions, max_size=3))
one_produced = st.builds(
    OneProduced, text, st.none() | st.uuids(), int32, int64, st.just(-1) | st.just(1_700_000_000_000), int64
)
responses = one_produced | st.builds(
    ProduceResponse,
    st.lists(topics, max_size=3),
    st.lists(st.builds(NodeEndpoint, int32, text, int32, st.none() | text), max_size=2),
)


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(data=st.data())
def test_requests_are_read_as_kio_writes_them(version: int, data: st.DataObject) -> None:
    sent = data.draw(messages(request_class(PRODUCE, version)))
    request = read_produce_request(memoryview(_HEADER + kio_bytes(sent)), len(_HEADER), version)
    assert request.transactional_id == sent.transactional_id
    assert (request.acks, timedelta(milliseconds=request.timeout_ms)) == (sent.acks, sent.timeout)
    assert [(topic.name, topic.topic_id) for topic in request.topics] == [
        ("", topic.topic_id) if version >= 13 else (topic.name, None) for topic in sent.topic_data
    ]
    assert [[(row.partition_index, row.records) for row in topic.partitions] for topic in request.topics] == [
        [(row.index, row.records) for row in topic.partition_data] for topic in sent.topic_data
    ]


def test_partitions_are_a_sequence() -> None:
    rows = b"".join(struct.pack(">ii", index, size) + b"r" * size for index, size in ((5, 0), (6, 2), (7, 3)))
    null = struct.pack(">ii", 8, -1)
    body = struct.pack(">hhiih", -1, 1, 1, 1, 1) + b"t" + struct.pack(">i", 4) + rows + null
    (topic,) = read_produce_request(memoryview(body), 0, 3).topics
    found = list(topic.partitions)
    assert found == [(5, b""), (6, b"rr"), (7, b"rrr"), (8, None)]
    assert [topic.partitions[at] for at in range(-4, 4)] == found * 2
    assert topic.partitions[1:3] == found[1:3]
    with pytest.raises(IndexError):
        topic.partitions[4]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_views_of_the_frame(version: int) -> None:
    frame = bytearray(produce(version, b"r" * 100))
    (topic,) = read_produce_request(memoryview(frame), 0, version).topics
    records = topic.partitions[0].records
    assert records is not None
    assert bytes(records) == b"r" * 100
    frame[frame.index(b"rrr")] = ord("!")
    assert records[0] == ord("!")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_requests_of_the_versions_before_transactions_are_understood(version: int) -> None:
    raw = struct.pack(">hiih1siii3s", -1, 500, 1, 1, b"t", 1, 7, 3, b"old")
    request = read_produce_request(memoryview(raw), 0, version)
    (topic,) = request.topics
    assert (request.acks, request.timeout_ms, topic.name) == (-1, 500, "t")
    assert [(row.partition_index, bytes(row.records or b"")) for row in topic.partitions] == [(7, b"old")]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, ">iiih1siihq"),
        (1, ">iiih1siihqi"),
        (2, ">iiih1siihqqi"),
    ],
)
def test_answers_to_the_oldest_versions(version: int, expected: str) -> None:
    row = PartitionProduced(7, ErrorCode.unsupported_version)
    out = pack_produce_response(ProduceResponse([TopicProduced("t", None, [row])]), version, 5, 9)
    values = [5, 1, 1, b"t", 1, 7, 35, -1] + ([-1] if version == 2 else []) + ([9] if version else [])
    assert out == struct.pack(expected, struct.calcsize(expected) - 4, *values)


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(response=responses, throttle_ms=st.just(0) | st.integers(0, 2**31 - 1))
def test_responses_are_what_kio_reads(version: int, response: Produced, throttle_ms: int) -> None:
    out = bytes(pack_produce_response(response, version, -5, throttle_ms))
    assert struct.unpack_from(">ii", out) == (len(out) - 4, -5)
    read = kio_message(response_class(PRODUCE, version), out[9 if version >= 9 else 8 :])
    assert read.throttle_time == timedelta(milliseconds=throttle_ms)
    assert [seen(topic, version) for topic in read.responses] == [said(topic, version) for topic in response.topics]
    if version >= 10:
        endpoints = [NodeEndpoint(row.node_id, row.host, row.port, row.rack) for row in read.node_endpoints]
        assert endpoints == list(response.node_endpoints)


def said(topic: TopicProduced, version: int) -> Any:
    """What a client of this version is meant to see of it."""
    rows = []
    for row in topic.partitions:
        moment = None if row.log_append_time_ms < 0 else datetime.fromtimestamp(row.log_append_time_ms / 1000, UTC)
        fields: list[Any] = [row.partition_index, row.error_code, row.base_offset, moment]
        if version >= 5:
            fields.append(row.log_start_offset)
        if version >= 8:
            fields += [list(row.record_errors), row.error_message]
        if version >= 10:
            fields.append(row.current_leader or LeaderIdAndEpoch(-1, -1))
        rows.append(fields)
    return (topic.topic_id if version >= 13 else topic.name), rows


def seen(topic: Any, version: int) -> Any:
    rows = []
    for row in topic.partition_responses:
        fields: list[Any] = [row.index, row.error_code, row.base_offset, row.log_append_time]
        if version >= 5:
            fields.append(row.log_start_offset)
        if version >= 8:
            errors = [RecordError(error.batch_index, error.batch_index_error_message) for error in row.record_errors]
            fields += [errors, row.error_message]
        if version >= 10:
            fields.append(LeaderIdAndEpoch(row.current_leader.leader_id, row.current_leader.leader_epoch))
        rows.append(fields)
    return (topic.topic_id if version >= 13 else topic.name), rows


def produce(version: int, records: bytes | None) -> bytes:
    """A request for one partition."""
    size = -1 if records is None else len(records)
    records = records or b""
    if version >= 9:
        topic = bytes(range(16)) if version >= 13 else b"\x02t"
        body = b"\x02" + topic + b"\x02" + struct.pack(">i", 7) + bytes([size + 1]) + records + b"\0\0\0"
        return b"\0" + struct.pack(">hi", -1, 500) + body
    body = struct.pack(">ih1siii", 1, 1, b"t", 1, 7, size) + records
    return struct.pack(">hhi", -1, -1, 500) + body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [b"records", b"", None])
def test_a_request_that_ends_early_is_refused_wherever_it_ends(version: int, records: bytes | None) -> None:
    raw = produce(version, records)
    assert read_produce_request(memoryview(raw), 0, version).topics
    for end in range(len(raw)):
        with pytest.raises(Malformed):
            read_produce_request(memoryview(raw)[:end], 0, version)


@pytest.mark.parametrize(
    ("version", "raw", "why"),
    [
        (8, struct.pack(">hhii", -1, 1, 1, -1), "topic_data: null"),
        (8, struct.pack(">hhii", -1, 1, 1, 2**31 - 1), "topic_data: 2147483647 elements announced with 0 bytes left"),
        (8, struct.pack(">hhiih1si", -1, 1, 1, 1, 1, b"t", -1), "partition_data: null"),
        (8, struct.pack(">hhiihi", -1, 1, 1, 1, -1, 0), "name: null"),
        (8, struct.pack(">hhiih1siii", -1, 1, 1, 1, 1, b"t", 1, 7, 100), "records: length 100 with 0 bytes left"),
        (8, struct.pack(">hhiih1siii", -1, 1, 1, 1, 1, b"t", 1, 7, -2), "records: negative length -2"),
        (9, b"\0" + struct.pack(">hi", 1, 1) + b"\xff\xff\xff\xff\x0f", "topic_data: 4294967294 elements announced"),
        (9, b"\0" + struct.pack(">hi", 1, 1) + b"\x02\x02t\xff\xff\xff\xff\x0f", "partition_data: 4294967294 elements"),
        (13, b"\0" + struct.pack(">hi", 1, 1) + b"\x02" + bytes(10), "topic_id: the bytes end before it"),
    ],
)
def test_lies_are_named(version: int, raw: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_produce_request(memoryview(raw), 0, version)
