"""What a follower sends is what the leader's own codec reads, and what kio reads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.messages import kio_message

from penstock.wire.fetch import (
    CONSUMER,
    UNKNOWN_HIGH_WATERMARK,
    FetchRequest,
    ForgottenTopic,
    PartitionFetch,
    TopicFetch,
    read_fetch_request,
)
from penstock.wire.fetch_request import NEWEST_PACKED, append_fetch_request
from penstock.wire.schemas import FETCH, request_class

VERSIONS = range(17, NEWEST_PACKED + 1)
_EACH = settings(max_examples=20)
_HEADER = b"header"

int8 = st.integers(-128, 127)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
uuids = st.uuids().filter(lambda value: value.int != 0)

rows = st.builds(
    PartitionFetch,
    int32,
    int32,
    int64,
    int32,
    int64,
    int32,
    st.none() | uuids,
    st.just(UNKNOWN_HIGH_WATERMARK) | st.integers(-(2**63), 2**63 - 2),
)
topics = st.builds(TopicFetch, st.just(""), uuids, st.lists(rows, max_size=4))
forgotten = st.builds(ForgottenTopic, st.just(""), uuids, st.lists(int32, max_size=5).map(tuple))
requests = st.builds(
    FetchRequest,
    int32,
    int64,
    int32,
    int32,
    int32,
    int8,
    int32,
    int32,
    st.lists(topics, max_size=3),
    st.lists(forgotten, max_size=3),
    st.text(max_size=8),
    st.none() | st.text(max_size=8),
)


def packed(request: FetchRequest, version: int) -> bytes:
    out = bytearray(_HEADER)
    append_fetch_request(out, request, version)
    return bytes(out)


def as_of(request: FetchRequest, version: int) -> FetchRequest:
    """What a version can say of it."""
    if version >= 18:
        return request
    shown = [
        topic._replace(partitions=[row._replace(high_watermark=UNKNOWN_HIGH_WATERMARK) for row in topic.partitions])
        for topic in request.topics
    ]
    return request._replace(topics=shown)


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(request=requests)
def test_the_leader_reads_what_a_follower_sends(version: int, request: FetchRequest) -> None:
    read = read_fetch_request(memoryview(packed(request, version)), len(_HEADER), version)
    assert read == as_of(request, version)


@pytest.mark.parametrize("version", VERSIONS)
@_EACH
@given(request=requests)
def test_kio_reads_the_same(version: int, request: FetchRequest) -> None:
    read = kio_message(request_class(FETCH, version), packed(request, version)[len(_HEADER) :])
    assert read.max_wait == timedelta(milliseconds=request.max_wait_ms)
    assert (read.min_bytes, read.max_bytes, read.isolation_level) == request[3:6]
    assert (read.session_id, read.session_epoch) == (request.session_id, request.session_epoch)
    assert (read.replica_state.replica_id, read.replica_state.replica_epoch) == request[:2]
    assert (read.rack_id, read.cluster_id) == (request.rack_id, request.cluster_id)
    assert [(topic.topic_id, topic.partitions) for topic in read.forgotten_topics_data] == [
        topic[1:] for topic in request.forgotten_topics
    ]
    assert [[kio_row(row) for row in topic.partitions] for topic in read.topics] == [
        topic.partitions for topic in as_of(request, version).topics
    ]


def kio_row(row: Any) -> PartitionFetch:
    return PartitionFetch(
        row.partition,
        row.current_leader_epoch,
        row.fetch_offset,
        row.last_fetched_epoch,
        row.log_start_offset,
        row.partition_max_bytes,
        row.replica_directory_id,
        getattr(row, "high_watermark", UNKNOWN_HIGH_WATERMARK),
    )


def test_a_thousand_partitions_are_one_request() -> None:
    row = PartitionFetch(0, 3, 100, 2, 0, 1 << 20, UUID(int=9), 90)
    topic = TopicFetch("", UUID(int=1), [row._replace(partition=index) for index in range(1000)])
    request = FetchRequest(1, 7, 500, 1, 10_000_000, 0, 0, 0, [topic], [], "", None)
    assert read_fetch_request(memoryview(packed(request, 18)), len(_HEADER), 18) == request


def test_an_incremental_fetch_without_news_is_a_few_bytes() -> None:
    """It is sent again and again, whatever the number of partitions in the session."""
    request = FetchRequest(1, 7, 500, 1, 10_000_000, 0, 5, 6, [], [], "", None)
    assert len(packed(request, 18)) - len(_HEADER) == 40


def test_a_consumer_names_no_replica() -> None:
    request = FetchRequest(CONSUMER, -1, 500, 1, 100, 0, 0, -1, [TopicFetch("", UUID(int=1), [])], [], "", None)
    assert packed(request, 18).endswith(b"\x01\x00")
