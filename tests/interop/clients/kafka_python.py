"""kafka-python: pure Python, and the only one here whose admin client speaks nearly every API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import BrokerResponseError  # type: ignore[import-untyped]
from tests.interop.client import Refusal
from tests.interop.clients.python_names import READ_TIMEOUT_S, consumer_options, producer_options, received, sent
from tests.interop.record import Record


class KafkaPythonClient:
    name = "kafka-python"

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
        producer = KafkaProducer(batch_size=1_000_000, **producer_options(self._bootstrap, codec, acks, idempotent))
        try:
            for acknowledgement in [producer.send(topic, **sent(record)) for record in records]:
                acknowledgement.get(timeout=READ_TIMEOUT_S)
        except BrokerResponseError as error:
            raise Refusal(error.errno, str(error)) from error
        finally:
            producer.close(timeout=READ_TIMEOUT_S)

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        with self._consumer() as consumer:
            where = TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, offset)
            return [received(message) for message in _read(consumer, count)]

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        with self._consumer() as consumer:
            where = TopicPartition(topic, partition)
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        with self._consumer() as consumer:
            where = TopicPartition(topic, partition)
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
            return None if found is None else int(found.offset)

    def read_in_group(self, group: str, topic: str, count: int) -> list[Record]:
        with self._consumer(topic, group_id=group, max_poll_records=1) as consumer:
            messages = _read(consumer, count)
            consumer.commit()
            return [received(message) for message in messages]

    @contextmanager
    def _consumer(self, *topics: str, **options: Any) -> Iterator[Any]:
        consumer = KafkaConsumer(*topics, **consumer_options(self._bootstrap), **options)
        try:
            yield consumer
        finally:
            consumer.close()


def _read(consumer: Any, count: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records arrived"
        for batch in consumer.poll(timeout_ms=2000, max_records=count - len(messages)).values():
            messages.extend(batch)
    return messages
