"""kafka-python: pure Python, and the only one here whose admin client speaks nearly every API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import BrokerResponseError  # type: ignore[import-untyped]
from tests.interop.client import Refusal
from tests.interop.record import Record

_READ_TIMEOUT_S = 15.0


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
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
            batch_size=1_000_000,
            max_request_size=10_000_000,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            for future in sent:
                future.get(timeout=_READ_TIMEOUT_S)
        except BrokerResponseError as error:
            raise Refusal(error.errno, str(error)) from error
        finally:
            producer.close(timeout=_READ_TIMEOUT_S)

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        with self._consumer() as consumer:
            where = TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, offset)
            return [_record(message) for message in _read(consumer, count)]

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
            return [_record(message) for message in messages]

    @contextmanager
    def _consumer(self, *topics: str, **options: Any) -> Iterator[Any]:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=200,
            fetch_max_wait_ms=100,
            **options,
        )
        try:
            yield consumer
        finally:
            consumer.close()


def _read(consumer: Any, count: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + _READ_TIMEOUT_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records arrived"
        for batch in consumer.poll(timeout_ms=2000, max_records=count - len(messages)).values():
            messages.extend(batch)
    return messages


def _record(message: Any) -> Record:
    return Record(
        value=message.value,
        key=message.key,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )
