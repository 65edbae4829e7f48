"""Reading from any offset or time, and from where a group stopped."""

from __future__ import annotations

from tests.interop.client import Client
from tests.interop.record import AN_HOUR_AGO_MS, Record, numbered, values
from tests.interop.server import Server


def test_seek_by_offset(client: Client, server: Server) -> None:
    topic = server.topic()
    client.produce(topic, numbered(10))
    found = client.consume(topic, 3, offset=4)
    assert [(record.offset, record.value) for record in found] == [(4, b"value-4"), (5, b"value-5"), (6, b"value-6")]


def test_watermarks(client: Client, server: Server) -> None:
    topic = server.topic()
    assert client.watermarks(topic) == (0, 0)
    client.produce(topic, numbered(10))
    assert client.watermarks(topic) == (0, 10)


def test_seek_by_time(stamping_client: Client, server: Server) -> None:
    topic = server.topic()
    for index in range(6):
        stamping_client.produce(topic, [Record(f"at {index}".encode(), timestamp_ms=AN_HOUR_AGO_MS + index * 1000)])
    assert stamping_client.offset_at(topic, AN_HOUR_AGO_MS - 1) == 0
    assert stamping_client.offset_at(topic, AN_HOUR_AGO_MS + 2000) == 2
    assert stamping_client.offset_at(topic, AN_HOUR_AGO_MS + 2001) == 3
    assert stamping_client.offset_at(topic, AN_HOUR_AGO_MS + 5001) is None


def test_time_inside_one_batch(stamping_client: Client, server: Server) -> None:
    """The index knows batches only; the answer must still be the record's own offset."""
    topic = server.topic()
    records = [Record(b"x" * 100, timestamp_ms=AN_HOUR_AGO_MS + index * 1000) for index in range(6)]
    stamping_client.produce(topic, records, codec="zstd")
    assert stamping_client.offset_at(topic, AN_HOUR_AGO_MS + 2001) == 3


def test_commits_carry_a_group_on(client: Client, server: Server) -> None:
    topic, group = server.topic(), server.name("group")
    client.produce(topic, numbered(10))
    first = client.read_in_group(group, topic, 4)
    second = client.read_in_group(group, topic, 6)
    assert values(first + second) == values(numbered(10))


def test_groups_do_not_see_each_others_commits(client: Client, server: Server) -> None:
    topic = server.topic()
    client.produce(topic, numbered(3))
    for _ in range(2):
        assert values(client.read_in_group(server.name("group"), topic, 3)) == values(numbered(3))
