"""What users do to a node, with a real client, in one call each. Every wait has a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kio.schema.errors import ErrorCode
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.storage.batches import headers_in

from penstock.wire.records import records_of

QUIET = {"log_level": 0}
WAIT_S = 20.0


class Outcome(NamedTuple):
    """How a write ended: `offset` -1 and an error, or an offset."""

    offset: int
    error: KafkaError | None
    seconds: float


class Fetched(NamedTuple):
    code: ErrorCode
    values: dict[int, bytes]
    high_watermark: int


def create_topic(bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, partitions, config=dict(config or {}))])[name].result(WAIT_S)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.delete_topics([name])[name].result(WAIT_S)


def configure(bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
    """Beside what is set already."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def topics(bootstrap: str) -> dict[str, int]:
    """Name → number of partitions, of those that users made."""
    listed = AdminClient({"bootstrap.servers": bootstrap, **QUIET}).list_topics(timeout=WAIT_S).topics
    return {name: len(topic.partitions) for name, topic in listed.items() if not name.startswith("__")}


def offset_at(bootstrap: str, topic: str, timestamp_ms: int) -> int:
    """Of the first record that is not older."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
    try:
        (row,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=WAIT_S)
        if row.error is not None:
            raise KafkaException(row.error)
        return int(row.offset)
    finally:
        consumer.close()


def try_to_write(bootstrap: str, topic: str, value: bytes, acks: str = "all") -> Outcome:
    """One message, one attempt."""
    outcomes: list[Outcome] = []
    started = time.monotonic()

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        seconds = time.monotonic() - started
        outcomes.append(Outcome(-1 if error is not None or offset is None else offset, error, seconds))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "retries": 0, "linger.ms": 0, **QUIET})
    producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(WAIT_S) == 0, "neither acknowledged nor refused"
    return outcomes[0]


def write(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes],
    *,
    keys: Callable[[bytes], bytes | None] = lambda value: None,
    partition: int = 0,
    timestamp_ms: int = 0,
    batch_messages: int = 10,
) -> dict[int, bytes]:
    """All acknowledged by acks=all, in small batches; offset → value."""
    written: dict[int, bytes] = {}
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is not None:
            failures.append(error)
        else:
            assert offset is not None and value is not None
            written[offset] = value

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 1,
            "batch.num.messages": batch_messages,
            "message.timeout.ms": int(WAIT_S * 1000),
            **QUIET,
        }
    )
    for value in values:
        producer.produce(topic, value, keys(value), partition, on_delivery=delivered, timestamp=timestamp_ms)
    assert producer.flush(WAIT_S) == 0
    assert not failures, failures[0]
    return written


def delete_key(bootstrap: str, topic: str, key: bytes) -> None:
    """A record without a value, as compacted topics know it."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    producer.produce(topic, None, key)
    assert producer.flush(WAIT_S) == 0


def read(bootstrap: str, topic: str, start: int | None = None, *, partition: int = 0) -> dict[int, bytes | None]:
    """Offset → value, from `start` (the beginning if none is given) to the end."""
    found: dict[int, bytes | None] = {}
    for message in _messages(bootstrap, topic, start, partition):
        offset = message.offset()
        assert offset is not None
        assert offset not in found, f"offset {offset} was read twice"
        found[offset] = message.value()
    return found


def read_keyed(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values, in order."""
    return [(message.key(), message.value()) for message in _messages(bootstrap, topic, None, 0)]


def _messages(bootstrap: str, topic: str, start: int | None, partition: int) -> Iterator[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    try:
        if start is None:
            start = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)[0]
        consumer.assign([TopicPartition(topic, partition, start)])
        deadline = time.monotonic() + WAIT_S
        while True:
            for message in consumer.consume(1000, 0.05):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                else:
                    raise KafkaException(error)
            assert time.monotonic() < deadline, "the end was not reached"
    finally:
        consumer.close()


def fetch(bootstrap: str, topic: str, offset: int = 0, *, partition: int = 0, max_bytes: int = 2**20) -> Fetched:
    """One fetch, with the error as the broker gives it. Every batch in it is whole and its CRC is right."""
    with RawConnection(bootstrap) as connection:
        response = connection.ask(requests.fetch(topic, offset, partition=partition, max_bytes=max_bytes))
    row = response.responses[0].partitions[0]
    data = bytes(row.records or b"")
    values: dict[int, bytes] = {}
    position = 0
    for header in headers_in(data):
        batch = memoryview(data)[position : position + header.size]
        for record in records_of(batch, limit_bytes=2**26):
            assert record.value is not None
            values[record.offset] = bytes(record.value)
        position += header.size
    return Fetched(ErrorCode(row.error_code), values, row.high_watermark)


def watermarks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Start and end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
    try:
        found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)
        assert found is not None
        return found
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offset: int, *, timeout_s: float = WAIT_S) -> KafkaError | None:
    """By a consumer that is no member."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "socket.timeout.ms": int(timeout_s * 1000), **QUIET}
    )
    try:
        (row,) = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        return row.error
    except KafkaException as refusal:
        error = refusal.args[0]
        assert isinstance(error, KafkaError)
        return error
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    """-1001 if there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    try:
        (row,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
        assert row.error is None, row.error
        return int(row.offset)
    finally:
        consumer.close()


def said(caplog: pytest.LogCaptureFixture) -> str:
    """Everything that was logged, with all that belongs to each line."""
    return "\n".join(f"{record.levelname} {record.getMessage()} {record.__dict__}" for record in caplog.records)
