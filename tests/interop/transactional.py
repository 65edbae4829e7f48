"""A transactional producer and a reader of what is committed, by librdkafka: what tests of transactions share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
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


def fences_a_zombie(server: Server) -> None:
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


def aborts_what_takes_too_long(server: Server) -> None:
    topic = server.topic()
    slow, other = producer_of(server, server.name("id"), timeout_ms=1000), producer_of(server, server.name("id"))
    transaction(slow, topic, "too late")
    transaction(other, topic, "behind it")
    other.commit_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["behind it"], "readers wait no longer than the timeout")
    with pytest.raises(KafkaException):
        slow.commit_transaction(TIMEOUT_S)
    assert committed(server, topic) == ["behind it"]


def transforms_exactly_once(server: Server) -> None:
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
