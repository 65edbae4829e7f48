"""Errors are found wherever an answer's class keeps them."""

from __future__ import annotations

from collections import Counter

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE
from penstock.broker.refusals import note_errors
from penstock.wire.fetched import FetchResponse, PartitionFetched, TopicFetched
from penstock.wire.produced import PartitionProduced, ProduceResponse, TopicProduced

NONE, CORRUPT, LOADING = ErrorCode.none, ErrorCode.corrupt_message, ErrorCode.coordinator_load_in_progress
UNKNOWN = ErrorCode.unknown_topic_or_partition


def metadata(*codes: ErrorCode) -> MetadataResponse:
    topics = tuple(
        MetadataResponseTopic(error_code=code, name=TopicName("a"), topic_id=None, partitions=()) for code in codes
    )
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(),
        cluster_id=None,
        controller_id=BrokerId(i32(0)),
        topics=topics,
        error_code=NONE,
    )


ANSWERS = {
    "of its own": (
        HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=LOADING),
        {"COORDINATOR_LOAD_IN_PROGRESS": 1},
    ),
    "none": (HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=NONE), {}),
    "in rows": (metadata(NONE, UNKNOWN, UNKNOWN), {"UNKNOWN_TOPIC_OR_PARTITION": 2}),
    "in rows of rows": (
        ProduceResponse([TopicProduced("a", None, [PartitionProduced(0), PartitionProduced(1, CORRUPT)])]),
        {"CORRUPT_MESSAGE": 1},
    ),
    "at both ends": (
        FetchResponse([TopicFetched("a", None, [PartitionFetched(0, UNKNOWN)])], CORRUPT),
        {"CORRUPT_MESSAGE": 1, "UNKNOWN_TOPIC_OR_PARTITION": 1},
    ),
    "no answer at all": (None, {}),
}


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_every_error_is_counted_once(answer: object, expected: dict[str, int]) -> None:
    errors: Counter[str] = Counter()
    note_errors(answer, errors)
    assert errors == expected
