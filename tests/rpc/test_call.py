"""Requests as a server's own codec reads them, and their answers."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64
from tests.wire.messages import SERVED_VERSIONS, kio_bytes, kio_message, messages

from penstock.rpc.core.call import BROKER_CLIENT_ID, Call, call_of, fetch_call
from penstock.units import MIB
from penstock.wire.fetch import FetchRequest, read_fetch_request
from penstock.wire.framing import read_request_header
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import request_class, response_class, response_header_version

# What brokers ask each other: AlterPartition, OffsetForLeaderEpoch, CreateTopics, Metadata, ApiVersions; one that is
# not flexible, too.
BETWEEN_BROKERS = [(56, 3), (23, 4), (19, 7), (3, 12), (18, 4), (23, 3)]


@pytest.mark.parametrize(("api_key", "version"), BETWEEN_BROKERS)
@settings(max_examples=15)
@given(data=st.data(), correlation_id=st.integers(0, 2**31 - 1))
def test_a_server_reads_what_is_asked(api_key: int, version: int, data: st.DataObject, correlation_id: int) -> None:
    request = data.draw(messages(request_class(api_key, version)))
    call: Call[Any] = call_of(request, response_class(api_key, version))
    call.number(correlation_id)
    assert struct.unpack_from(">i", call.frame) == (len(call.frame) - 4,)
    frame = memoryview(call.frame)[4:]
    header = read_request_header(frame)
    assert header[:4] == (api_key, version, correlation_id, BROKER_CLIENT_ID)
    assert kio_message(request_class(api_key, version), bytes(frame[header.body_start :])) == request


@pytest.mark.parametrize(("api_key", "version"), BETWEEN_BROKERS)
@settings(max_examples=15)
@given(data=st.data())
def test_an_answer_is_what_the_server_said(api_key: int, version: int, data: st.DataObject) -> None:
    request = data.draw(messages(request_class(api_key, version)))
    said = data.draw(messages(response_class(api_key, version)))
    call: Call[Any] = call_of(request, response_class(api_key, version))
    assert call.tagged_header == (response_header_version(api_key, version) == 1)
    frame = memoryview(b"header" + kio_bytes(said))
    assert call.read(frame, len(b"header")) == said


def test_answers_are_checked_before_anything_is_made_of_them() -> None:
    """kio itself would end the process here."""
    request: Any = request_class(3, 12)(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    call = call_of(request, MetadataResponse)
    with pytest.raises(Malformed, match="4294967294 elements announced"):
        call.read(memoryview(bytes(4) + b"\xff\xff\xff\xff\x0f"), 0)


def test_request_and_answer_must_belong_together() -> None:
    request = AlterPartitionRequest(broker_id=BrokerId(1), broker_epoch=i64(1), topics=())
    with pytest.raises(ValueError, match="MetadataResponse does not answer AlterPartitionRequest"):
        call_of(request, MetadataResponse)
    assert call_of(request, AlterPartitionResponse).tagged_header


def test_a_fetch_is_what_the_leader_reads_and_may_be_answered_with_one_batch_of_any_size() -> None:
    request = FetchRequest(1, 7, 500, 1, 10 * MIB, 0, 5, 6, [], [], "", None)
    call = fetch_call(request)
    frame = memoryview(call.frame)[4:]
    header = read_request_header(frame)
    assert read_fetch_request(frame, header.body_start, header.api_version) == request
    assert call.answer_limit_bytes > 110 * MIB
    assert fetch_call(request, largest_batch_bytes=500 * MIB).answer_limit_bytes > 510 * MIB


def test_the_correlation_id_is_at_the_same_place_in_every_header() -> None:
    """kio's header classes are the judge: forwarding rests on it."""
    request_headers = {load_request_schema(*served).__header_schema__ for served in SERVED_VERSIONS}
    response_headers = {load_response_schema(*served).__header_schema__ for served in SERVED_VERSIONS}
    assert (len(request_headers), len(response_headers)) == (2, 2), "flexible or not"
    for request_header in request_headers:
        header: Any = request_header
        raw = kio_bytes(
            header(request_api_key=3, request_api_version=9, correlation_id=i32(0x01020304), client_id="client")
        )
        assert raw[4:8] == b"\x01\x02\x03\x04"
    for response_header in response_headers:
        assert kio_bytes(response_header(correlation_id=i32(0x01020304)))[:4] == b"\x01\x02\x03\x04"
