"""Requests that lie about what they hold, one kind of lie per test."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.messages import SERVED_VERSIONS, kio_bytes, messages

from penstock.wire.bounds import MAX_ELEMENTS, ElementBudget, read_varint
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import request_class
from penstock.wire.versions import decode

METADATA, OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT = 3, 8, 10, 11, 12
DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS = 60, 75


def compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


HEARTBEAT_BODY = compact(b"g") + struct.pack(">i", 1) + compact(b"m") + b"\0"


@pytest.mark.parametrize(
    ("api_key", "version", "body", "why"),
    [
        (METADATA, 9, "ff ff ff ff 0f", "MetadataRequest.topics: 4294967294 elements announced with 0 bytes left"),
        (METADATA, 1, "7f ff ff ff", "MetadataRequest.topics: 2147483647 elements announced with 0 bytes left"),
        (METADATA, 9, "80 80 80 80 80 00", "MetadataRequest.topics: varint longer than 5 bytes"),
        (METADATA, 9, "ff ff ff ff 1f", "MetadataRequest.topics: varint does not fit into 32 bits"),
        (METADATA, 9, "ff ff", "MetadataRequest.topics: the bytes end inside a varint"),
        (METADATA, 1, "ff ff ff fe", "MetadataRequest.topics: negative length -2"),
        (METADATA, 0, "ff ff ff ff", "MetadataRequest.topics: null, but it must be there"),
        (METADATA, 1, "00 00 00 01 ff ff", "MetadataRequest.topics.name: null, but it must be there"),
        (METADATA, 1, "00 00 00 01 00 05 61", "MetadataRequest.topics.name: length 5 with 1 bytes left"),
        (METADATA, 1, "00 00 00 01 00 02 c3 28", "MetadataRequest.topics.name: not valid UTF-8"),
        (METADATA, 1, "00 00 00 01 80 00", "MetadataRequest.topics.name: negative length -32768"),
        (METADATA, 9, "01 01 01", "MetadataRequest.allow_auto_topic_creation: 3 bytes expected, 2 left"),
        (FIND_COORDINATOR, 4, "00 00 00", "FindCoordinatorRequest.coordinator_keys: null"),
        (HEARTBEAT, 4, "00", "HeartbeatRequest.group_id: null, but it must be there"),
        (HEARTBEAT, 4, "", "HeartbeatRequest.group_id: the bytes end inside a varint"),
        (HEARTBEAT, 0, "00", "HeartbeatRequest.group_id: the bytes end before its length"),
        (
            JOIN_GROUP,
            9,
            "02 67" + "00" * 8 + "01 00 01 02 02 72 7f",
            "protocols.metadata: length 126 with 0 bytes left",
        ),
        (DESCRIBE_TOPIC_PARTITIONS, 0, "01 00 00 00 01", "DescribeTopicPartitionsRequest.cursor: the bytes end"),
    ],
)
def test_a_lie_is_named(api_key: int, version: int, body: str, why: str) -> None:
    with pytest.raises(Malformed) as raised:
        decode(api_key, version, bytes.fromhex(body))
    assert why in str(raised.value)


def test_a_string_longer_than_kafka_allows_is_refused_in_the_compact_encoding_too() -> None:
    text = b"x" * 0x8000
    with pytest.raises(Malformed, match="string of 32768 bytes, at most 32767"):
        decode(HEARTBEAT, 4, b"\x81\x80\x02" + text + b"\0" * 10)


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_a_duration_beyond_what_time_can_say_is_refused(retention_ms: int) -> None:
    body = struct.pack(">h1sih1sqi", 1, b"g", 1, 1, b"m", retention_ms, 0)
    with pytest.raises(Malformed, match=r"OffsetCommitRequest\.retention_time"):
        decode(OFFSET_COMMIT, 2, body)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = decode(HEARTBEAT, 4, HEARTBEAT_BODY + b"\0")
    assert decode(HEARTBEAT, 4, HEARTBEAT_BODY + b"\x02\x05\x02ab\x07\x00") == plain


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        (b"\x02\x05\x00\x05\x00", "tagged field 5 after 5"),
        (b"\x02\x05\x00\x04\x00", "tagged field 4 after 5"),
        (b"\x01\x05\x03ab", "tagged field 5 of 3 bytes with 2 bytes left"),
        (b"\x01\x05", "the bytes end inside a varint"),
        (b"\xff\xff\xff\xff\x0f", "the bytes end inside a varint"),
    ],
)
def test_wrong_tagged_fields_are_refused(tags: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decode(HEARTBEAT, 4, HEARTBEAT_BODY + tags)


def test_thousands_of_tagged_fields_are_skipped_and_more_are_refused() -> None:
    def tagged(count: int) -> bytes:
        fields = b"".join(varint(tag) + b"\0" for tag in range(count))
        return HEARTBEAT_BODY + varint(count) + fields

    assert decode(HEARTBEAT, 4, tagged(5000)).group_id == "g"
    with pytest.raises(Malformed, match=f"more than {MAX_ELEMENTS} elements"):
        decode(HEARTBEAT, 4, tagged(MAX_ELEMENTS + 1))


def test_a_known_tagged_field_must_have_the_size_it_says() -> None:
    fetch = struct.pack(">iiiibii", -1, 100, 1, 100, 0, 0, -1) + b"\1\1\1"
    assert decode(1, 12, fetch + b"\1\0\2\2c")
    with pytest.raises(Malformed, match="tagged field of 2 bytes said to have 3"):
        decode(1, 12, fetch + b"\1\0\3\2cX")


def test_the_elements_of_all_arrays_count_together() -> None:
    partitions = struct.pack(">i", MAX_ELEMENTS // 2) + bytes(4 * (MAX_ELEMENTS // 2))
    topic = struct.pack(">h1s", 1, b"t") + partitions
    one = struct.pack(">h1si", 1, b"g", 1) + topic
    assert len(decode(9, 1, one).groups[0].topics[0].partition_indexes) == MAX_ELEMENTS // 2
    two = struct.pack(">h1si", 1, b"g", 2) + topic + topic
    with pytest.raises(Malformed, match=f"more than {MAX_ELEMENTS} elements in one request"):
        decode(9, 1, two)


def test_bytes_behind_the_request_are_ignored_as_kafka_does() -> None:
    assert decode(DESCRIBE_CLUSTER, 0, b"\1\0") == decode(DESCRIBE_CLUSTER, 0, b"\1\0trailing")


def test_any_byte_but_zero_is_true_as_in_kafka() -> None:
    assert decode(DESCRIBE_CLUSTER, 0, b"\x05\0").include_cluster_authorized_operations is True


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@given(st.integers(0, 2**32 - 1))
def test_varints_are_read_back(value: int) -> None:
    raw = varint(value)
    assert read_varint(raw + b"\xff", 0, "") == (value, len(raw))


@pytest.mark.parametrize(("api_key", "version"), SERVED_VERSIONS)
@settings(max_examples=2)
@given(data=st.data())
def test_a_request_that_ends_early_is_refused_wherever_it_ends(api_key: int, version: int, data: st.DataObject) -> None:
    raw = kio_bytes(data.draw(messages(request_class(api_key, version))))
    end = data.draw(st.integers(0, max(0, len(raw) - 1)))
    if raw:
        with pytest.raises(Malformed):
            decode(api_key, version, raw[:end])


def test_a_budget_is_spent_only_once() -> None:
    budget = ElementBudget()
    budget.spend(MAX_ELEMENTS, "here")
    with pytest.raises(Malformed, match="here"):
        budget.spend(1, "here")
