"""APIs and versions that nobody knows."""

from __future__ import annotations

import struct

import pytest
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.broker import Broker
from tests.bad_input.raw import ConnectionClosed, header_bytes

UNSUPPORTED_VERSION = 35
PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18


@pytest.mark.parametrize("api_key", [-1, 999, 32767])
def test_an_unknown_api_closes_the_connection(broker: Broker, api_key: int) -> None:
    with broker.connect() as connection:
        connection.send_frame(header_bytes(api_key, 0, 1, flexible=False))
        assert connection.wait_until_closed() == b""


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_of_api_versions_gets_the_first_versions_answer(broker: Broker, version: int) -> None:
    """So that a client newer than the broker can still find out what the broker speaks (KIP-511)."""
    with broker.connect() as connection:
        connection.send_frame(header_bytes(API_VERSIONS, version, 7, flexible=True) + b"\x02x\x02y\x00")
        answer = connection.receive(requests.api_versions(), 7)
        assert answer.error_code == UNSUPPORTED_VERSION
        assert API_VERSIONS in {row.api_key for row in answer.api_keys}
        assert connection.ask(requests.api_versions()).error_code == 0, "the connection goes on"


@pytest.mark.parametrize("api_key", [FETCH, METADATA, 12, 68])
def test_an_unknown_version_of_another_api_is_refused(broker: Broker, api_key: int) -> None:
    with broker.connect() as connection:
        connection.send_frame(header_bytes(api_key, 99, 3, flexible=True) + b"\x00" * 20)
        try:
            answer = connection.receive_frame()
        except ConnectionClosed:
            return
        assert struct.unpack(">i", answer[:4]) == (3,)
        assert struct.pack(">h", UNSUPPORTED_VERSION) in answer


def test_every_api_that_is_listed_is_spoken(broker: Broker) -> None:
    """Garbage in a listed version may end the connection, but never the truth of the list."""
    with broker.connect() as connection:
        rows = connection.ask(requests.api_versions()).api_keys
    for row in rows:
        assert 0 <= row.min_version <= row.max_version
    listed = {row.api_key: (row.min_version, row.max_version) for row in rows}
    # librdkafka takes the range as a sign of what record formats and codecs the broker knows (KAFKA-18659).
    assert listed[PRODUCE][0] == 0
    assert listed[FETCH][0] <= 4


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_of_old_formats_is_refused(broker: Broker, version: int) -> None:
    topic, batch = broker.topic(), good_batch()
    row = struct.pack(">i", 0) + struct.pack(">i", len(batch)) + batch
    body = (
        struct.pack(">hii", -1, 1000, 1) + struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", 1) + row
    )
    with broker.connect() as connection:
        connection.send_frame(header_bytes(PRODUCE, version, 4, flexible=False) + body)
        try:
            answer = connection.receive_frame()
        except ConnectionClosed:
            assert not broker.is_penstock
            return
    assert struct.pack(">h", UNSUPPORTED_VERSION) in answer
    with broker.connect() as connection:
        assert connection.ask(requests.fetch(topic)).responses[0].partitions[0].high_watermark == 0
