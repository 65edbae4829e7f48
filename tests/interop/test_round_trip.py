"""What one client wrote, every client reads, and the broker kept it as it was sent."""

from __future__ import annotations

import pytest
from tests.interop.client import Client
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.record import AN_HOUR_AGO_MS, Record, numbered, values
from tests.interop.server import Server
from tests.interop.stored import stored_batches

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_codec_is_kept_in_the_stored_batch(client: Client, server: Server, codec: str) -> None:
    topic = server.topic()
    records = numbered(40, prefix="the same words again and again")
    client.produce(topic, records, codec=codec)
    assert {batch.codec for batch in stored_batches(server.bootstrap, topic)} == {codec}
    assert values(client.consume(topic, 40)) == values(records)


def test_every_client_reads_what_every_client_wrote(every_client: list[Client], server: Server) -> None:
    topic = server.topic()
    written = []
    for index, writer in enumerate(every_client):
        records = numbered(5, prefix=f"{writer.name} {'long enough to compress ' * 5}")
        writer.produce(topic, records, codec=CODECS[index + 1])
        written += values(records)
    for reader in every_client:
        assert values(reader.consume(topic, len(written))) == written, reader.name


def test_keys_headers_and_nulls(client: Client, server: Server) -> None:
    topic = server.topic()
    records = [
        Record(b"plain"),
        Record(b"keyed", key=b"key"),
        Record(None, key=b"tombstone"),
        Record(b"one header", headers=(("name", b"text"),)),
        Record(b"twice the same name", headers=(("name", b"first"), ("name", b"second"))),
    ]
    client.produce(topic, records)
    found = client.consume(topic, len(records))
    assert [(it.key, it.value, it.headers) for it in found] == [(it.key, it.value, it.headers) for it in records]
    assert [it.offset for it in found] == list(range(len(records)))


def test_null_everywhere_is_read_by_every_client(every_client: list[Client], server: Server) -> None:
    """Not every library lets its user send these, but each must read them."""
    topic = server.topic()
    ConfluentClient(server.bootstrap).produce(topic, [Record(None), Record(b"", key=b"", headers=(("none", None),))])
    for reader in every_client:
        nothing, empty = reader.consume(topic, 2)
        assert (nothing.key, nothing.value, nothing.headers) == (None, None, ()), reader.name
        assert (empty.key, empty.value, empty.headers) == (b"", b"", (("none", None),)), reader.name


def test_create_time_is_the_producers(stamping_client: Client, server: Server) -> None:
    topic = server.topic()
    stamping_client.produce(
        topic, [Record(b"old", timestamp_ms=AN_HOUR_AGO_MS), Record(b"new", timestamp_ms=AN_HOUR_AGO_MS + 5)]
    )
    assert [record.timestamp_ms for record in stamping_client.consume(topic, 2)] == [AN_HOUR_AGO_MS, AN_HOUR_AGO_MS + 5]


def test_log_append_time_is_the_brokers(client: Client, server: Server) -> None:
    topic = server.topic(message_timestamp_type="LogAppendTime")
    client.produce(
        topic, [Record(b"a", timestamp_ms=AN_HOUR_AGO_MS), Record(b"b", timestamp_ms=AN_HOUR_AGO_MS)], codec="gzip"
    )
    (batch,) = stored_batches(server.bootstrap, topic)
    assert batch.log_append_time
    assert batch.max_timestamp_ms > AN_HOUR_AGO_MS
    assert {record.timestamp_ms for record in client.consume(topic, 2)} == {batch.max_timestamp_ms}


def test_partitions_are_apart_and_in_order(client: Client, server: Server) -> None:
    topic = server.topic(partitions=3)
    for partition in range(3):
        client.produce(topic, numbered(20, prefix=f"partition {partition}", partition=partition))
    for partition in range(3):
        found = client.consume(topic, 20, partition=partition)
        assert values(found) == values(numbered(20, prefix=f"partition {partition}"))


def test_a_value_larger_than_every_buffer(client: Client, server: Server) -> None:
    topic = server.topic(max_message_bytes="4000000")
    value = bytes(range(33, 127)) * 20_000
    client.produce(topic, [Record(b"before"), Record(value), Record(b"behind")])
    assert values(client.consume(topic, 3)) == [b"before", value, b"behind"]
