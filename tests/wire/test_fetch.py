"""The hand-written Fetch codec agrees with kio in every version, and copies no records."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.wire.messages import kio_bytes, kio_message, messages

from penstock.wire.fetch import UNKNOWN_HIGH_WATERMARK, read_fetch_request
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
from penstock.wire.schemas import FETCH, request_class, response_class

VERSIONS = range(4, 19)
_EACH = settings(max_examples=12)
_HEADER = b"header"

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
epoch = st.integers(0, 2**31 - 1)
offset = st.integers(0, 2**63 - 1)
text = st.text(max_size=8)

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
topics = st.builds(TopicFetched, text, st.none() | st.uuids(), st.lists(partitions, max_size=3))
responses = st.builds(
    FetchResponse,
    st.lists(topics, max_size=3),
    st.sampled_from(ErrorCode),
    int32,
    st.lists(st.builds(NodeEndpoint, int32, text, int32, st.none() | text), max_size=2),
)


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(data=st.data())
def test_requests_are_read_as_kio_writes_them(version: int, data: st.DataObject) -> None:
    sent = data.draw(messages(request_class(FETCH, version)))
    request = read_fetch_request(memoryview(_HEADER + kio_bytes(sent)), len(_HEADER), version)
    assert timedelta(milliseconds=request.max_wait_ms) == sent.max_wait
    assert (request.min_bytes, request.max_bytes) == (sent.min_bytes, sent.max_bytes)
    assert request.isolation_level == sent.isolation_level
    if version >= 15:
        state = sent.replica_state
        assert (request.replica_id, request.replica_epoch) == (state.replica_id, state.replica_epoch)
    else:
        assert (request.replica_id, request.replica_epoch) == (sent.replica_id, -1)
    session = (sent.session_id, sent.session_epoch) if version >= 7 else (0, -1)
    assert (request.session_id, request.session_epoch) == session
    assert request.rack_id == (sent.rack_id if version >= 11 else "")
    assert request.cluster_id == (sent.cluster_id if version >= 12 else None)
    assert [named(topic, version) for topic in sent.topics] == [topic[:2] for topic in request.topics]
    assert [[row(partition) for partition in topic.partitions] for topic in sent.topics] == [
        [tuple(partition) for partition in topic.partitions] for topic in request.topics
    ]
    forgotten = sent.forgotten_topics_data if version >= 7 else ()
    assert [(*named(topic, version), topic.partitions) for topic in forgotten] == request.forgotten_topics


def named(topic: Any, version: int) -> tuple[str, Any]:
    return ("", topic.topic_id) if version >= 13 else (topic.topic, None)


def row(partition: Any) -> tuple[Any, ...]:
    """In our order, with what the version cannot say at its default."""
    return (
        partition.partition,
        getattr(partition, "current_leader_epoch", -1),
        partition.fetch_offset,
        getattr(partition, "last_fetched_epoch", -1),
        getattr(partition, "log_start_offset", -1),
        partition.partition_max_bytes,
        getattr(partition, "replica_directory_id", None),
        getattr(partition, "high_watermark", UNKNOWN_HIGH_WATERMARK),
    )


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=10)
@given(data=st.data())
def test_a_request_that_ends_early_is_refused_wherever_it_ends(version: int, data: st.DataObject) -> None:
    raw = memoryview(kio_bytes(data.draw(messages(request_class(FETCH, version)))))
    end = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(Malformed):
        read_fetch_request(raw[:end], 0, version)


FETCH_12 = struct.pack(">iiiibii", -1, 100, 1, 100, 0, 0, -1)
FETCH_15 = struct.pack(">iiibii", 100, 1, 100, 0, 0, -1)
ROW_12 = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 100)


@pytest.mark.parametrize(
    ("version", "raw", "why"),
    [
        (4, struct.pack(">iiiibi", -1, 1, 1, 1, 0, -1), "topics: null"),
        (4, struct.pack(">iiiibi", -1, 1, 1, 1, 0, 2**31 - 1), "topics: 2147483647 elements announced"),
        (4, struct.pack(">iiiibih1si", -1, 1, 1, 1, 0, 1, 1, b"t", 2), "partitions: 2 elements announced with 0 bytes"),
        (4, struct.pack(">iiiibih1si", -1, 1, 1, 1, 0, 1, 1, b"t", -1), "partitions: null"),
        (12, FETCH_12 + b"\xff\xff\xff\xff\x0f", "topics: 4294967294 elements announced"),
        (12, FETCH_12 + b"\x01\x00", "forgotten_topics_data: null"),
        (12, FETCH_12 + b"\x01\x01\x00", "rack_id: null"),
        (12, FETCH_12 + b"\x01\x01\x01\x01\x00\x03\x02cX", "cluster_id: tagged field of 2 bytes said to have 3"),
        (12, FETCH_12 + b"\x02\x02t\x02" + ROW_12 + b"\x02\x05\x00\x05\x00", "partitions: tagged field 5 after 5"),
        (15, FETCH_15 + b"\x01\x01\x01\x01\x01\x02\x00\x00", "replica_state: tagged field of 2 bytes"),
        (
            17,
            FETCH_15 + b"\x02" + bytes(16) + b"\x02" + ROW_12 + b"\x01\x00\x02ab",
            "replica_directory_id: tagged field",
        ),
        (18, FETCH_15 + b"\x02" + bytes(16) + b"\x02" + ROW_12 + b"\x01\x01\x02ab", "high_watermark: tagged field"),
    ],
)
def test_lies_are_named(version: int, raw: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_fetch_request(memoryview(raw), 0, version)


def test_tags_that_a_version_does_not_know_are_skipped() -> None:
    raw = FETCH_12 + b"\x02\x02t\x02" + ROW_12 + b"\x01\x09\x02ab" + b"\x00\x01\x01\x01\x07\x00"
    request = read_fetch_request(memoryview(raw), 0, 12)
    assert [topic.name for topic in request.topics] == ["t"]
    assert request.topics[0].partitions[0].partition_max_bytes == 100


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(response=responses, throttle_ms=st.integers(0, 2**31 - 1))
def test_responses_are_what_kio_reads(version: int, response: FetchResponse, throttle_ms: int) -> None:
    out = b"".join(map(bytes, pack_fetch_response(response, version, -5, throttle_ms)))
    assert struct.unpack_from(">ii", out) == (len(out) - 4, -5)
    read = kio_message(response_class(FETCH, version), out[9 if version >= 12 else 8 :])
    assert read.throttle_time == timedelta(milliseconds=throttle_ms)
    if version >= 7:
        assert (read.error_code, read.session_id) == (response.error_code, response.session_id)
    assert [named(topic, version) for topic in read.responses] == [
        ("", topic.topic_id) if version >= 13 else (topic.name, None) for topic in response.topics
    ]
    assert [[seen(row, version) for row in topic.partitions] for topic in read.responses] == [
        [said(row, version) for row in topic.partitions] for topic in response.topics
    ]
    if version >= 16:
        endpoints = [NodeEndpoint(row.node_id, row.host, row.port, row.rack) for row in read.node_endpoints]
        assert endpoints == response.node_endpoints


def said(row: PartitionFetched, version: int) -> list[Any]:
    """What a client of this version is meant to see of it."""
    aborted = None if row.aborted_transactions is None else list(row.aborted_transactions)
    fields: list[Any] = [row.partition_index, row.error_code, row.high_watermark, row.last_stable_offset]
    fields += [aborted, b"".join(map(bytes, row.records))]
    if version >= 5:
        fields.append(row.log_start_offset)
    if version >= 11:
        fields.append(row.preferred_read_replica)
    if version >= 12:
        fields += [row.diverging_epoch or (-1, -1), row.current_leader or (-1, -1), row.snapshot_id or (-1, -1)]
    return fields


def seen(row: Any, version: int) -> list[Any]:
    aborted = row.aborted_transactions
    fields: list[Any] = [row.partition_index, row.error_code, row.high_watermark, row.last_stable_offset]
    fields += [None if aborted is None else [(txn.producer_id, txn.first_offset) for txn in aborted], row.records]
    if version >= 5:
        fields.append(row.log_start_offset)
    if version >= 11:
        fields.append(row.preferred_read_replica)
    if version >= 12:
        fields.append((row.diverging_epoch.epoch, row.diverging_epoch.end_offset))
        fields.append((row.current_leader.leader_id, row.current_leader.leader_epoch))
        fields.append((row.snapshot_id.end_offset, row.snapshot_id.epoch))
    return fields


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_handed_over_as_they_are(version: int) -> None:
    records = [memoryview(b"x" * 1000), memoryview(b"y" * 500)]
    row = PartitionFetched(0, records=records)
    buffers = pack_fetch_response(FetchResponse([TopicFetched("t", None, [row, row])]), version, 1, 0)
    assert [buffer for buffer in buffers if isinstance(buffer, memoryview)] == records + records
    assert all(buffers)
