"""What a producer is promised: acks, idempotence, size limits, topics that appear by themselves."""

from __future__ import annotations

import pytest
from tests.interop.client import Client, refused
from tests.interop.record import Record, numbered, values
from tests.interop.server import Server
from tests.interop.stored import stored_batches
from tests.interop.waiting import eventually

MESSAGE_TOO_LARGE = 10


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(client: Client, server: Server, acks: str) -> None:
    topic = server.topic()
    client.produce(topic, numbered(10), acks=acks)
    assert values(client.consume(topic, 10)) == values(numbered(10))


def test_idempotent_batches_are_numbered_without_a_gap(client: Client, server: Server) -> None:
    topic = server.topic()
    client.produce(topic, numbered(500), idempotent=True)
    batches = stored_batches(server.bootstrap, topic)
    assert len({batch.producer_id for batch in batches}) == 1
    assert batches[0].producer_id >= 0
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]
    assert values(client.consume(topic, 500)) == values(numbered(500))


def test_two_idempotent_producers_have_different_ids(client: Client, server: Server) -> None:
    topic = server.topic()
    client.produce(topic, [Record(b"first")], idempotent=True)
    client.produce(topic, [Record(b"second")], idempotent=True)
    first, second = stored_batches(server.bootstrap, topic)
    assert first.producer_id != second.producer_id


def test_too_large_is_refused_and_nothing_kept(client: Client, server: Server) -> None:
    topic = server.topic(max_message_bytes="2000")
    with refused(MESSAGE_TOO_LARGE):
        client.produce(topic, [Record(b"x" * 5000)])
    assert client.watermarks(topic) == (0, 0)


def test_the_limit_counts_compressed_bytes(client: Client, server: Server) -> None:
    topic = server.topic(max_message_bytes="2000")
    client.produce(topic, [Record(b"x" * 5000)], codec="gzip")
    assert values(client.consume(topic, 1)) == [b"x" * 5000]


def test_a_topic_appears_when_it_is_first_written(client: Client, server: Server) -> None:
    topic = server.name("appears")
    client.produce(topic, numbered(3))
    eventually(lambda: client.watermarks(topic) == (0, 3), "the new topic holds what was written")
    assert values(client.consume(topic, 3)) == values(numbered(3))
