"""confluent-kafka: librdkafka under Python, the client that most non-Java users run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.interop.client import Refusal
from tests.interop.record import Record

_READ_TIMEOUT_S = 15.0


class ConfluentClient:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                # Long enough that one call's records travel as one batch; `flush` ends the wait.
                "linger.ms": 50,
                "message.max.bytes": 10_000_000,
            }
        )
        refused: list[KafkaError] = []
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp=record.timestamp_ms or 0,
                on_delivery=_collecting(refused),
            )
        left = producer.flush(_READ_TIMEOUT_S)
        if refused:
            raise Refusal(refused[0].code(), refused[0].str())
        assert left == 0, f"{left} records neither acknowledged nor refused"

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])
            return [_record(message) for message in _read(consumer, count)]

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        with self._consumer() as consumer:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_READ_TIMEOUT_S)
            assert found is not None
            return found

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        with self._consumer() as consumer:
            wanted = TopicPartition(topic, partition, timestamp_ms)
            (found,) = consumer.offsets_for_times([wanted], timeout=_READ_TIMEOUT_S)
            return found.offset if found.offset >= 0 else None

    def read_in_group(self, group: str, topic: str, count: int) -> list[Record]:
        with self._consumer(group=group) as consumer:
            consumer.subscribe([topic])
            messages = _read(consumer, count)
            consumer.commit(message=messages[-1], asynchronous=False)
            return [_record(message) for message in messages]

    @contextmanager
    def _consumer(self, group: str = "nobody") -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 200,
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()


def _collecting(refused: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)

    return delivered


def _read(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + _READ_TIMEOUT_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records arrived"
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise Refusal(error.code(), error.str())
        messages.append(message)
    return messages


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    partition = message.partition()
    assert partition is not None
    return Record(
        value=_bytes(message.value()),
        key=_bytes(message.key()),
        headers=tuple(headers),
        timestamp_ms=message.timestamp()[1],
        partition=partition,
        offset=message.offset(),
    )


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def refusal(error: KafkaException) -> Refusal:
    cause: KafkaError = error.args[0]
    return Refusal(cause.code(), cause.str())
