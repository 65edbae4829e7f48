"""Scenarios of transactions with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError, ProducerFenced  # type: ignore[import-untyped]
from aiokafka.structs import TopicPartition  # type: ignore[import-untyped]
from tests.interop.server import Server
from tests.interop.transactional import TIMEOUT_S, committed
from tests.interop.waiting import eventually


def within_time(use: Callable[[Server], Awaitable[None]]) -> Callable[[Server], None]:
    """A scenario like those of clients that block."""

    async def used(server: Server) -> None:
        async with asyncio.timeout(4 * TIMEOUT_S):
            await use(server)

    return lambda server: asyncio.run(used(server))


@asynccontextmanager
async def producing(server: Server, name: str, timeout_ms: int = 10_000) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(
        bootstrap_servers=server.bootstrap, transactional_id=name, transaction_timeout_ms=timeout_ms
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(server: Server, topic: str, group: str | None = None) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=server.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@within_time
async def commits_aborts_and_is_fenced(server: Server) -> None:
    topic, name = server.topic(), server.name("id")
    async with producing(server, name) as zombie:
        async with zombie.transaction():
            await zombie.send_and_wait(topic, b"committed")
        with pytest.raises(ZeroDivisionError):
            async with zombie.transaction():
                await zombie.send_and_wait(topic, b"aborted")
                raise ZeroDivisionError
        async with producing(server, name) as successor, successor.transaction():
            await successor.send_and_wait(topic, b"of its successor")
        with pytest.raises(ProducerFenced):
            async with zombie.transaction():
                await zombie.send_and_wait(topic, b"of a zombie")
    async with consuming(server, topic) as consumer:
        found = [(await consumer.getone()).value for _ in range(2)]
    assert found == [b"committed", b"of its successor"]


@within_time
async def aborts_what_takes_too_long(server: Server) -> None:
    topic, partition = server.topic(), 0
    async with producing(server, server.name("id"), timeout_ms=1000) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"too late", partition=partition)
        async with consuming(server, topic) as consumer:
            place = TopicPartition(topic, partition)
            while (await consumer.end_offsets([place]))[place] == 0:
                await asyncio.sleep(0.01)
        with pytest.raises(KafkaError):
            await producer.commit_transaction()
    await asyncio.to_thread(eventually, lambda: committed(server, topic) == [], "nothing of it is read")


@within_time
async def transforms_exactly_once(server: Server) -> None:
    source, target, group = server.topic(partitions=2), server.topic(partitions=2), server.name("group")
    async with producing(server, server.name("id")) as producer:
        for place in range(10):
            async with producer.transaction():
                await producer.send_and_wait(source, b"%d" % place, partition=place % 2)
        async with consuming(server, source, group) as consumer:
            await _transform(consumer, producer, target, group)
            for partition in range(2):
                # Behind the last of five records, or behind the marker of its transaction. A commit is answered before
                # its markers are written, and this client does not ask for offsets that are stable.
                while await consumer.committed(TopicPartition(source, partition)) not in (9, 10):
                    await asyncio.sleep(0.01)
    expected = sorted(f"<{place}>" for place in range(10))
    await asyncio.to_thread(eventually, lambda: sorted(committed(server, target, 2)) == expected, "each exactly once")


async def _transform(consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, target: str, group: str) -> None:
    """The first transaction is aborted, and what it had read is read again."""
    taken, has_aborted = 0, False
    while taken < 10:
        batches = await consumer.getmany(timeout_ms=200, max_records=4)
        if not batches:
            continue
        await producer.begin_transaction()
        for partition, records in batches.items():
            for record in records:
                await producer.send(target, b"<%s>" % record.value, partition=partition.partition)
        offsets = {partition: records[-1].offset + 1 for partition, records in batches.items()}
        await producer.send_offsets_to_transaction(offsets, group)
        if has_aborted:
            await producer.commit_transaction()
            taken += sum(len(records) for records in batches.values())
        else:
            await producer.abort_transaction()
            for partition in batches:
                # `seek_to_committed` would stay where it is, because nothing is committed.
                consumer.seek(partition, await consumer.committed(partition) or 0)
            has_aborted = True
