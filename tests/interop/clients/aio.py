"""aiokafka: asyncio and its own protocol code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import BrokerResponseError  # type: ignore[import-untyped]
from tests.interop.client import Refusal
from tests.interop.record import Record

_READ_TIMEOUT_S = 15.0


class AioClient:
    name = "aiokafka"

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
        try:
            asyncio.run(self._produce(topic, records, codec, acks, idempotent))
        except BrokerResponseError as error:
            raise Refusal(error.errno, str(error)) from error

    async def _produce(self, topic: str, records: Sequence[Record], codec: str, acks: str, idempotent: bool) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
            max_batch_size=1_000_000,
            max_request_size=10_000_000,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), _READ_TIMEOUT_S)
        finally:
            await producer.stop()

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        async def run() -> list[Record]:
            async with self._consumer() as consumer:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                consumer.seek(where, offset)
                return [_record(message) for message in await _read(consumer, count)]

        return asyncio.run(run())

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        async def run() -> tuple[int, int]:
            async with self._consumer() as consumer:
                where = TopicPartition(topic, partition)
                first = await consumer.beginning_offsets([where])
                end = await consumer.end_offsets([where])
                return first[where], end[where]

        return asyncio.run(run())

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        async def run() -> int | None:
            async with self._consumer() as consumer:
                where = TopicPartition(topic, partition)
                found = (await consumer.offsets_for_times({where: timestamp_ms}))[where]
                return None if found is None else int(found.offset)

        return asyncio.run(run())

    def read_in_group(self, group: str, topic: str, count: int) -> list[Record]:
        async def run() -> list[Record]:
            async with self._consumer(topic, group_id=group) as consumer:
                messages = await _read(consumer, count)
                last = messages[-1]
                await consumer.commit({TopicPartition(topic, last.partition): last.offset + 1})
                return [_record(message) for message in messages]

        return asyncio.run(run())

    @asynccontextmanager
    async def _consumer(self, *topics: str, **options: Any) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=200,
            fetch_max_wait_ms=100,
            **options,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()


async def _read(consumer: Any, count: int) -> list[Any]:
    async with asyncio.timeout(_READ_TIMEOUT_S):
        return [await consumer.getone() for _ in range(count)]


def _record(message: Any) -> Record:
    return Record(
        value=message.value,
        key=message.key,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )
