"""aiokafka: asyncio and its own protocol code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import BrokerResponseError  # type: ignore[import-untyped]
from tests.interop.client import Refusal
from tests.interop.clients.python_names import READ_TIMEOUT_S, consumer_options, producer_options, received, sent
from tests.interop.record import Record


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
        options = producer_options(self._bootstrap, codec, acks, idempotent)
        producer = AIOKafkaProducer(max_batch_size=1_000_000, **options)
        await producer.start()
        try:
            acknowledgements = [await producer.send(topic, **sent(record)) for record in records]
            await asyncio.wait_for(asyncio.gather(*acknowledgements), READ_TIMEOUT_S)
        finally:
            await producer.stop()

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        async def run() -> list[Record]:
            async with self._consumer() as consumer:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                consumer.seek(where, offset)
                return [received(message) for message in await _read(consumer, count)]

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
                return [received(message) for message in messages]

        return asyncio.run(run())

    @asynccontextmanager
    async def _consumer(self, *topics: str, **options: Any) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(*topics, **consumer_options(self._bootstrap), **options)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()


async def _read(consumer: Any, count: int) -> list[Any]:
    async with asyncio.timeout(READ_TIMEOUT_S):
        return [await consumer.getone() for _ in range(count)]
