"""Bytes that are no Kafka request at all, or not yet."""

from __future__ import annotations

import struct

import pytest
from tests.bad_input import requests
from tests.bad_input.broker import Broker
from tests.bad_input.conftest import Bystander
from tests.bad_input.raw import header_bytes, packed

METADATA = 3
MIB = 1024 * 1024

# The first flight of a browser or of a client configured for TLS.
CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(500)
HTTP_GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 7, 2**31 - 1], ids=str)
def test_a_length_that_no_request_has_closes_the_connection(broker: Broker, length: int) -> None:
    with broker.connect() as connection:
        connection.send_bytes(struct.pack(">i", length) + b"\x00" * max(0, min(length, 7)))
        assert connection.wait_until_closed() == b""


@pytest.mark.parametrize("greeting", [CLIENT_HELLO, HTTP_GET], ids=["TLS", "HTTP"])
def test_another_protocol_closes_the_connection(broker: Broker, greeting: bytes) -> None:
    with broker.connect() as connection:
        connection.send_bytes(greeting)
        assert connection.wait_until_closed() == b""


def test_a_client_id_longer_than_the_frame_closes_the_connection(broker: Broker) -> None:
    with broker.connect() as connection:
        connection.send_frame(struct.pack(">hhih", METADATA, 9, 1, 30_000) + b"short")
        assert connection.wait_until_closed() == b""


def test_a_request_one_byte_at_a_time_is_answered(broker: Broker, bystander: Bystander) -> None:
    request = requests.metadata()
    with broker.connect() as connection:
        body = packed(request, 5)
        for byte in struct.pack(">i", len(body)) + body:
            connection.send_bytes(bytes([byte]))
            if byte == 0:
                bystander.works()
        assert connection.receive(request, 5).brokers


def test_answers_come_in_the_order_of_the_requests(broker: Broker) -> None:
    """Also when the first waits and the ones behind it do not."""
    topic = broker.topic()
    with broker.connect() as connection:
        slow, quick = requests.fetch(topic, max_wait_ms=300), requests.metadata()
        first, second = connection.send(slow), connection.send(quick)
        connection.receive(slow, first)
        connection.receive(quick, second)


def test_half_a_request_disturbs_nobody(broker: Broker, bystander: Bystander) -> None:
    with broker.connect() as connection:
        connection.send_bytes(struct.pack(">i", 1000) + header_bytes(METADATA, 9, 1, flexible=True))
        bystander.works()


def test_a_connection_cut_in_the_middle_disturbs_nobody(broker: Broker, bystander: Bystander) -> None:
    for size in (1, 4, 5, 20):
        with broker.connect() as connection:
            body = packed(requests.metadata(), 1)
            connection.send_bytes((struct.pack(">i", len(body)) + body)[:size])
    bystander.works()
