"""Many clients that ask for a lot and read nothing: what is kept for them is bounded, and others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kio.schema.fetch.v11.request import FetchRequest
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.broker import Broker, broker_process
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually

from penstock.testing import node

KIB, MIB = 1024, 1024 * 1024
READERS = 40
BATCH_BYTES = 900 * KIB
BATCHES = 30
LIMIT = 48 * MIB
# What the interpreter and its allocator take in passing: an answer is made before it is known to be left unread.
SLACK = 12 * MIB


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with broker_process(directory, {"queued.max.response.bytes": str(LIMIT)}) as started:
        yield started


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = broker.topic()
    with broker.connect() as writer:
        batch = good_batch(value=bytes(BATCH_BYTES))
        for _ in range(BATCHES):
            answer = writer.ask(requests.produce(name, batch))
            assert answer.responses[0].partition_responses[0].error_code == 0
    return name


def insistent(topic: str) -> FetchRequest:
    """Who asks for at least so much gets it, where others get less at a time."""
    return requests.fetch(topic, min_bytes=BATCHES * BATCH_BYTES)


def fetched(connection: RawConnection, topic: str, correlation_id: int | None = None) -> int:
    """The size of the records in the answer to a fetch that is sent now, unless it was before."""
    poll = insistent(topic)
    number = connection.send(poll) if correlation_id is None else correlation_id
    return len(connection.receive(poll, number).responses[0].partitions[0].records)


def test_readers_that_read_nothing_hold_a_bounded_amount_and_then_get_their_answers(broker: Broker, topic: str) -> None:
    """Each asks for 27 MB, together more than a gigabyte."""
    with ExitStack() as stack:
        stack.enter_context(broker.growing_at_most(LIMIT + SLACK))
        slow = [stack.enter_context(broker.connect()) for _ in range(READERS)]
        sent = [connection.send(insistent(topic)) for connection in slow]
        eventually(lambda: broker.metric("penstock_reply_memory_bytes") > LIMIT / 3, "replies are left unread")
        with broker.connect() as other:
            assert fetched(other, topic) >= BATCH_BYTES
        for connection, correlation_id in zip(slow, sent, strict=True):
            assert fetched(connection, topic, correlation_id) >= BATCH_BYTES
        eventually(lambda: broker.metric("penstock_reply_memory_bytes") == 0, "nothing is left unread")
        assert fetched(slow[0], topic) == fetched(slow[1], topic) > 3 * BATCH_BYTES
    assert broker.unexpected_errors() == 0


def test_who_never_reads_is_closed_when_the_memory_is_used_up_and_who_reads_slowly_is_not() -> None:
    """Ten seconds without reading a byte, in the node's time."""
    with node({"queued.max.response.bytes": str(4 * MIB)}) as running:
        with RawConnection(running.bootstrap) as writer:
            writer.ask(requests.create_topic("large", configs={"max.message.bytes": "20000000"}))
            answer = writer.ask(requests.produce("large", good_batch(value=bytes(16 * MIB))))
            assert answer.responses[0].partition_responses[0].error_code == 0
        poll = requests.fetch("large")
        with RawConnection(running.bootstrap) as deaf, RawConnection(running.bootstrap) as slow:
            for each in (deaf, slow):
                each.send(poll)
            eventually(lambda: (running.metric("penstock_reply_memory_bytes") or 0) > 32 * MIB, "both leave it unread")
            for _ in range(4):
                running.advance(seconds=4)
                read(slow, 3 * MIB)
            eventually(lambda: running.metric("penstock_connections") == 1, "one is closed")
            assert running.metric("penstock_connections_closed_for_cause_total") == 1
            read(slow, 4 * MIB)


def read(connection: RawConnection, size: int) -> None:
    while size > 0:
        received = len(connection.socket.recv(size))
        assert received, f"closed {size} bytes too early"
        size -= received
