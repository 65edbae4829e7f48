"""The bytes that classic consumers exchange, against kio's reading of Kafka's own schemas."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription import v0, v1, v2, v3
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from penstock.groups.core.consumer_embedded import read_assignment, read_subscription, write_assignment

topic_names = st.text(st.characters(codec="utf-8"), max_size=20)
owned_rows = st.lists(
    st.tuples(topic_names, st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)), max_size=4
).map(tuple)


def written(version: int, entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return version.to_bytes(2, "big") + buffer.getvalue()


@given(
    topics=st.lists(topic_names).map(tuple),
    owned=owned_rows,
    rack=st.none() | topic_names,
    data=st.none() | st.binary(),
)
def test_subscriptions_are_read_as_kafka_writes_them(
    topics: tuple[str, ...], owned: tuple[tuple[str, tuple[int, ...]], ...], rack: str | None, data: bytes | None
) -> None:
    def rows(module: Any) -> tuple[Any, ...]:
        return tuple(module.data.TopicPartition(topic=topic, partitions=indexes) for topic, indexes in owned)

    subscription = v3.data.ConsumerProtocolSubscription
    newest: Any = subscription(
        topics=topics, user_data=data, owned_partitions=rows(v3), generation_id=i32(5), rack_id=rack
    )
    read = read_subscription(written(3, newest))
    assert read is not None
    assert (read.topics, read.owned, read.rack_id) == (topics, owned, rack)
    later = read_subscription(written(9, newest) + b"what later versions add")
    assert later == read
    second: Any = v2.data.ConsumerProtocolSubscription(
        topics=topics, user_data=data, owned_partitions=rows(v2), generation_id=i32(5)
    )
    first: Any = v1.data.ConsumerProtocolSubscription(topics=topics, user_data=data, owned_partitions=rows(v1))
    oldest: Any = v0.data.ConsumerProtocolSubscription(topics=topics, user_data=data)
    for version, entity in ((2, second), (1, first)):
        read = read_subscription(written(version, entity))
        assert read is not None
        assert (read.version, read.topics, read.owned) == (version, topics, owned)
    read = read_subscription(written(0, oldest))
    assert read is not None
    assert (read.topics, read.owned) == (topics, ())


@given(partitions=st.dictionaries(topic_names, st.sets(st.integers(0, 2**31 - 1), max_size=5), max_size=4))
def test_assignments_are_written_as_kafka_reads_them(partitions: dict[str, set[int]]) -> None:
    data = write_assignment(partitions.items(), 3)
    assert data[:2] == b"\x00\x03"
    read, size = entity_reader(ConsumerProtocolAssignment)(data, 2)
    assert size == len(data) - 2
    assert {row.topic: set(row.partitions) for row in read.assigned_partitions} == partitions
    assert {topic: set(indexes) for topic, indexes in read_assignment(data) or ()} == partitions


@given(st.binary(max_size=64))
def test_no_bytes_do_harm(data: bytes) -> None:
    read_subscription(data)
    read_assignment(data)


def test_counts_beyond_the_bytes_are_refused() -> None:
    for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        assert read_subscription(b"\x00\x01" + count) is None
        assert read_subscription(b"\x00\x01" + bytes(4) + b"\xff\xff\xff\xff" + count) is None
        assert read_assignment(b"\x00\x01" + count) is None
        assert read_assignment(b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01t" + count) is None


def test_no_assignment_is_an_empty_one() -> None:
    assert read_assignment(b"") == ()
