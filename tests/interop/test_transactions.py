"""Transactional producers of real clients: what is committed is read once, what is not is never read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import ProducerFenced  # type: ignore[import-untyped]
from aiokafka.structs import TopicPartition as AioPartition  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.interop.server import Server
from tests.interop.waiting import eventually

TIMEOUT_S = 15.0


def producer_of(server: Server, name: str, timeout_ms: int = 10_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


@contextmanager
def consumer_of(server: Server, group: str, **more: object) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **more,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def committed(server: Server, topic: str, partitions: int = 1) -> list[str]:
    """What a reader of committed records finds from the start to the last stable offset."""
    found, ended = [], set[int]()
    with consumer_of(server, server.name("reader")) as consumer:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        while len(ended) < partitions:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "nothing came"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
            else:
                found.append((message.value() or b"").decode())
    return found


def transaction(producer: Producer, topic: str, *values: str, partitions: int = 1) -> None:
    """Begun and written, not ended."""
    producer.begin_transaction()
    for place, value in enumerate(values):
        producer.produce(topic, value, partition=place % partitions)
    assert producer.flush(TIMEOUT_S) == 0


def test_what_is_committed_is_read_and_what_is_aborted_is_not(server: Server) -> None:
    topic, producer = server.topic(partitions=3), producer_of(server, server.name("id"))
    expected = []
    for round_number in range(6):
        values = [f"{round_number}-{place}" for place in range(5)]
        transaction(producer, topic, *values, partitions=3)
        if round_number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            expected += values
    eventually(lambda: sorted(committed(server, topic, 3)) == sorted(expected), "all that was committed is there")


def test_what_is_not_ended_is_not_read_and_keeps_nobody_else_from_writing(server: Server) -> None:
    topic = server.topic()
    first, second = producer_of(server, server.name("id")), producer_of(server, server.name("id"))
    transaction(second, topic, "before")
    second.commit_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["before"], "it is committed")
    transaction(first, topic, "open")
    transaction(second, topic, "behind")
    second.commit_transaction(TIMEOUT_S)
    assert committed(server, topic) == ["before"]
    first.abort_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["before", "behind"], "what was behind it can be read")


def test_a_producer_that_another_has_replaced_gets_nothing_done(server: Server) -> None:
    topic, name = server.topic(), server.name("id")
    zombie = producer_of(server, name)
    transaction(zombie, topic, "of a zombie")
    successor = producer_of(server, name)
    transaction(successor, topic, "of its successor")
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].code() == KafkaError._FENCED
    successor.commit_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["of its successor"], "only that is read")


def test_a_transaction_that_takes_too_long_is_aborted(server: Server) -> None:
    topic = server.topic()
    slow, other = producer_of(server, server.name("id"), timeout_ms=1000), producer_of(server, server.name("id"))
    transaction(slow, topic, "too late")
    transaction(other, topic, "behind it")
    other.commit_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["behind it"], "readers wait no longer than the timeout")
    with pytest.raises(KafkaException):
        slow.commit_transaction(TIMEOUT_S)
    assert committed(server, topic) == ["behind it"]


def test_consumed_transformed_and_produced_exactly_once(server: Server) -> None:
    source, target, group = server.topic(partitions=2), server.topic(partitions=2), server.name("group")
    producer = producer_of(server, server.name("id"))
    for place in range(20):
        transaction(producer, source, f"{place}")
        producer.commit_transaction(TIMEOUT_S)
    with consumer_of(server, group) as consumer:
        consumer.subscribe([source])
        taken = 0
        for commits in (False, True, True, True):
            while taken < 20:
                batch = _some(consumer)
                producer.begin_transaction()
                for partition, value in batch:
                    producer.produce(target, f"<{value}>", partition=partition)
                offsets = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
                if not commits:
                    producer.abort_transaction(TIMEOUT_S)
                    for row in consumer.committed(consumer.assignment(), TIMEOUT_S):
                        consumer.seek(TopicPartition(row.topic, row.partition, max(row.offset, 0)))
                    break
                producer.commit_transaction(TIMEOUT_S)
                taken += len(batch)
        eventually(lambda: _is_committed(consumer, source, 20), "the offsets are those of the transactions")
    expected = sorted(f"<{place}>" for place in range(20))
    eventually(lambda: sorted(committed(server, target, 2)) == expected, "each exactly once")


def _some(consumer: Consumer) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while not found:
        for message in consumer.consume(7, timeout=0.2):
            if message.error() is None:
                found.append((message.partition() or 0, (message.value() or b"").decode()))
    return found


def _is_committed(consumer: Consumer, topic: str, records: int) -> bool:
    # Behind the records of a partition there are the markers of their transactions.
    rows = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    return rows[0].offset in (2 * records - 1, 2 * records)


def aio(use: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(use(), 4 * TIMEOUT_S))  # type: ignore[arg-type]


def test_another_client_commits_aborts_and_is_fenced(server: Server) -> None:
    topic, name, group = server.topic(), server.name("id"), server.name("group")

    async def started() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=server.bootstrap, transactional_id=name, transaction_timeout_ms=10_000
        )
        await producer.start()
        return producer

    async def read(count: int) -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=server.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(count)]
        finally:
            await consumer.stop()

    async def use() -> None:
        zombie = await started()
        async with zombie.transaction():
            await zombie.send_and_wait(topic, b"committed")
            await zombie.send_offsets_to_transaction({AioPartition(topic, 0): 1}, group)
        with pytest.raises(ZeroDivisionError):
            async with zombie.transaction():
                await zombie.send_and_wait(topic, b"aborted")
                raise ZeroDivisionError
        successor = await started()
        async with successor.transaction():
            await successor.send_and_wait(topic, b"of its successor")
        with pytest.raises(ProducerFenced):
            async with zombie.transaction():
                await zombie.send_and_wait(topic, b"of a zombie")
        assert await read(2) == [b"committed", b"of its successor"]
        await successor.stop()
        await zombie.stop()

    aio(use)
    with consumer_of(server, group) as consumer:
        eventually(
            lambda: consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)[0].offset == 1, "the offset is committed"
        )
