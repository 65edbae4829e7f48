"""Connections over real sockets: order, limits, silence, and clients that go away in the middle of something."""

from __future__ import annotations

import logging
import random
import socket
import struct
from collections.abc import Iterator

import pytest
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import ConnectionClosed, RawConnection, packed
from tests.interop.waiting import eventually

from penstock.testing import TestNode, node
from penstock.units import KIB, MIB

NO_ERROR = 0
UNKNOWN_TOPIC_OR_PARTITION = 3


@pytest.fixture(scope="module")
def shared() -> Iterator[TestNode]:
    with node() as running:
        yield running


def create(node: TestNode, topic: str, partitions: int = 1) -> None:
    with RawConnection(node.bootstrap) as connection:
        (row,) = connection.ask(requests.create_topic(topic, partitions)).topics
        assert row.error_code == NO_ERROR, row.error_message


def produce(connection: RawConnection, topic: str, value: bytes, times: int = 1) -> None:
    for _ in range(times):
        (row,) = connection.ask(requests.produce(topic, good_batch(value=value))).responses[0].partition_responses
        assert row.error_code == NO_ERROR


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_replies_come_in_the_order_of_pipelined_requests(shared: TestNode) -> None:
    """acks=all waits for the disk, acks=1, errors and metadata do not: all in one packet, answered in order."""
    create(shared, "mixed", partitions=4)
    chance = random.Random(1)
    asked = []
    for _ in range(200):
        partition = chance.choice((0, 1, 2, 3, 9))
        produced = requests.produce("mixed", good_batch(), partition=partition, acks=chance.choice((-1, 1)))
        asked.append(chance.choice((produced, produced, produced, requests.metadata("mixed"))))
    with RawConnection(shared.bootstrap) as connection:
        sent = [connection.send(request) for request in asked]
        next_offset = [0] * 4
        for request, correlation_id in zip(asked, sent, strict=True):
            answer = connection.receive(request, correlation_id)
            if hasattr(answer, "brokers"):
                continue
            (row,) = answer.responses[0].partition_responses
            if row.index == 9:
                assert row.error_code == UNKNOWN_TOPIC_OR_PARTITION
            else:
                assert (row.error_code, row.base_offset) == (NO_ERROR, next_offset[row.index])
                next_offset[row.index] += 1


def test_what_is_behind_a_long_poll_waits_for_it(shared: TestNode) -> None:
    create(shared, "polled")
    poll, question = requests.fetch("polled", max_wait_ms=60_000), requests.metadata("polled")
    with RawConnection(shared.bootstrap) as connection, RawConnection(shared.bootstrap) as other:
        correlation_ids = [connection.send(poll), connection.send(question)]
        produce(other, "polled", b"value")
        assert connection.receive(poll, correlation_ids[0]).responses[0].partitions[0].records
        assert connection.receive(question, correlation_ids[1]).brokers


def test_a_client_that_does_not_read_has_one_reply_made_for_it_and_gets_all_of_them_when_it_reads() -> None:
    """A hundred fetches of nearly a megabyte in one packet: 90 MB if all were answered at once."""
    with node() as running:
        create(running, "large")
        poll = requests.fetch("large")
        with RawConnection(running.bootstrap) as connection:
            produce(connection, "large", bytes(900 * KIB))
        with RawConnection(running.bootstrap) as deaf:
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
            deaf.send_bytes(b"".join(framed(packed(poll, number)) for number in range(100)))
            eventually(lambda: held(running) > 0, "a reply is left unread")
            assert held(running) < 2 * MIB
            for number in range(100):
                assert len(deaf.receive(poll, number).responses[0].partitions[0].records) > 900 * KIB
            eventually(lambda: held(running) == 0, "nothing is unread")


def held(node: TestNode) -> float:
    return node.metric("penstock_reply_memory_bytes") or 0.0


def test_a_client_that_goes_away_during_a_long_poll_leaves_nothing_behind(shared: TestNode) -> None:
    create(shared, "left")
    with RawConnection(shared.bootstrap) as connection:
        connection.send(requests.fetch("left", max_wait_ms=2**31 - 1))
        eventually(lambda: shared.metric("penstock_requests_in_flight") == 1, "the poll waits")
    eventually(lambda: shared.metric("penstock_requests_in_flight") == 0, "the poll is gone")
    eventually(lambda: shared.metric("penstock_connections") == 0, "the connection is gone")


def test_a_client_that_resets_in_the_middle_of_a_request_leaves_nothing_behind(shared: TestNode) -> None:
    connection = RawConnection(shared.bootstrap)
    connection.send_bytes(framed(packed(requests.produce("any", good_batch(value=bytes(MIB))), 1))[: 800 * KIB])
    eventually(lambda: (shared.metric("penstock_request_memory_bytes") or 0) > 0, "memory is taken")
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    eventually(lambda: shared.metric("penstock_request_memory_bytes") == 0, "memory is given back")


def test_connections_beyond_the_limit_are_closed_and_there_is_room_again_when_one_leaves() -> None:
    with node({"max.connections": "2"}) as running:
        first, second = RawConnection(running.bootstrap), RawConnection(running.bootstrap)
        for each in (first, second):
            each.ask(requests.api_versions())
        with RawConnection(running.bootstrap) as third:
            assert third.wait_until_closed() == b""
        assert running.metric("penstock_connections_refused_total") == 1
        first.ask(requests.api_versions())
        first.close()
        eventually(lambda: running.metric("penstock_connections") == 1, "one has left")
        with RawConnection(running.bootstrap) as fourth:
            fourth.ask(requests.api_versions())
        second.close()


def test_a_silent_connection_is_closed_without_blame_and_a_busy_one_stays() -> None:
    with node({"connections.max.idle.ms": "60000"}) as running:
        with RawConnection(running.bootstrap) as silent, RawConnection(running.bootstrap) as busy:
            silent.ask(requests.api_versions())
            for _ in range(4):
                busy.ask(requests.api_versions())
                running.advance(seconds=30)
            assert silent.wait_until_closed() == b""
            busy.ask(requests.api_versions())
        assert running.metric("penstock_connections_closed_for_cause_total") == 0


def test_a_node_that_stops_blames_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), node() as running:
        connection = RawConnection(running.bootstrap)
        connection.ask(requests.api_versions())
    assert connection.wait_until_closed() == b""
    connection.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_bad_client_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with node() as running:
        for _ in range(20):
            misbehave(running)
        running.advance(seconds=11)
        misbehave(running)
        assert running.metric("penstock_connections_closed_for_cause_total") == 21
    lines = [record for record in caplog.records if record.getMessage() == "connection.closed"]
    assert [getattr(line, "repeated", 0) for line in lines] == [0, 19]


def misbehave(node: TestNode) -> None:
    with RawConnection(node.bootstrap) as connection:
        connection.send_bytes(struct.pack(">i", -1))
        connection.wait_until_closed()


def test_errors_are_counted_by_kafkas_name(shared: TestNode) -> None:
    before = shared.metric("penstock_errors_total", error="UNKNOWN_TOPIC_OR_PARTITION") or 0
    with RawConnection(shared.bootstrap) as connection:
        connection.ask(requests.produce("nowhere", good_batch()))
        connection.ask(requests.fetch("nowhere"))
    assert shared.metric("penstock_errors_total", error="UNKNOWN_TOPIC_OR_PARTITION") == before + 2


def test_a_client_that_stalls_in_the_middle_of_a_request_makes_room_for_others() -> None:
    """Its memory is wanted, so it is closed; without need it may take its time."""
    large = framed(packed(requests.produce("any", good_batch(value=bytes(2 * MIB))), 1))
    with node({"queued.max.request.bytes": str(MIB)}) as running:
        with RawConnection(running.bootstrap) as stalled:
            stalled.send_bytes(large[: MIB + 512 * KIB])
            eventually(lambda: (running.metric("penstock_request_memory_bytes") or 0) >= MIB, "memory is taken")
            for _ in range(3):
                running.advance(seconds=10)
            assert running.metric("penstock_connections") == 1
            with RawConnection(running.bootstrap) as other:
                other.send_bytes(large[: 128 * KIB])
                for _ in range(3):
                    running.advance(seconds=6)
                    other.send_bytes(b"\0")
                with pytest.raises(ConnectionClosed):
                    stalled.receive_frame()
        assert running.metric("penstock_connections_closed_for_cause_total") == 1
