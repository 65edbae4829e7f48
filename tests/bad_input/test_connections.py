"""Clients that take and do not give: too many of them, too slow, or deaf. And what all that may cost."""

from __future__ import annotations

import resource
import socket
import struct
from contextlib import ExitStack

import pytest
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.broker import Broker
from tests.bad_input.conftest import Bystander
from tests.bad_input.raw import ConnectionClosed, header_bytes, packed

MIB = 1024 * 1024
KIB = 1024
PRODUCE, METADATA = 0, 3
MESSAGE_TOO_LARGE = 10
# What the interpreter and its allocator take in passing, beyond the bytes that are counted.
SLACK = 3 * MIB


def hold(broker: Broker, bystander: Bystander, count: int) -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert allowed > count + 100, "more file descriptors are needed: ulimit -n"
    request = requests.api_versions()
    with ExitStack() as stack:
        connections = [stack.enter_context(broker.connect(30)) for _ in range(count)]
        bystander.works()
        for connection in connections:
            connection.send(request)
        for connection in connections:
            assert connection.receive(request, 1).error_code == 0
        bystander.works()


def test_500_connections(broker: Broker, bystander: Bystander) -> None:
    hold(broker, bystander, 500)


def test_500_connections_take_little_memory(broker: Broker, bystander: Bystander) -> None:
    with broker.growing_at_most(500 * 32 * KIB + SLACK):
        hold(broker, bystander, 500)


@pytest.mark.torture("connections")
def test_5000_connections(broker: Broker, bystander: Bystander) -> None:
    with broker.growing_at_most(5000 * 32 * KIB + SLACK):
        hold(broker, bystander, 5000)


def test_a_client_that_never_reads(broker: Broker, bystander: Bystander) -> None:
    """It asks for 2 GB. The broker must stop listening to it long before that, and to nobody else."""
    topic = broker.topic()
    with broker.connect() as writer:
        written = writer.ask(requests.produce(topic, good_batch(value=bytes(900_000))))
        assert written.responses[0].partition_responses[0].error_code == 0
    with broker.connect(timeout_s=1.0) as deaf, broker.growing_at_most(64 * MIB):
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * KIB)
        _ask_until_stuck(deaf.socket, packed(requests.fetch(topic), 1), 2000)
        bystander.works()
    bystander.works()


def _ask_until_stuck(to: socket.socket, request: bytes, times: int) -> None:
    to.setblocking(False)
    frame = struct.pack(">i", len(request)) + request
    for _ in range(times):
        try:
            to.send(frame)
        except BlockingIOError:
            return
        except ConnectionError:
            return


def test_a_client_that_stops_sending_gets_its_answer(broker: Broker) -> None:
    request = requests.metadata()
    with broker.connect() as connection:
        correlation_id = connection.send(request)
        connection.socket.shutdown(socket.SHUT_WR)
        try:
            connection.receive(request, correlation_id)
        except ConnectionClosed:
            return
        assert connection.wait_until_closed() == b""


def test_large_frames_that_are_announced_only_take_no_memory(broker: Broker, bystander: Bystander) -> None:
    """The length in front is a claim. Memory goes by what has come."""
    with ExitStack() as stack:
        stack.enter_context(broker.growing_at_most(16 * MIB))
        for _ in range(50):
            connection = stack.enter_context(broker.connect())
            connection.send_bytes(
                struct.pack(">i", 90 * MIB) + header_bytes(PRODUCE, 8, 1, flexible=False) + bytes(KIB)
            )
        bystander.works()


def test_a_produce_request_takes_its_frame_and_a_megabyte(broker: Broker) -> None:
    topic = broker.topic()
    batch = good_batch(value=bytes(30 * MIB))
    with broker.connect() as connection, broker.growing_at_most(len(batch) + MIB + SLACK):
        answer = connection.ask(requests.produce(topic, batch))
    assert answer.responses[0].partition_responses[0].error_code == MESSAGE_TOO_LARGE


def test_only_produce_may_be_large(broker: Broker, bystander: Bystander) -> None:
    if not broker.is_penstock:
        pytest.skip("Apache Kafka has one limit for all")
    with broker.connect() as connection, broker.growing_at_most(64 * MIB):
        connection.send_bytes(struct.pack(">i", 90 * MIB) + header_bytes(METADATA, 9, 1, flexible=True))
        bystander.works()
        assert connection.wait_until_closed() == b""
