"""A consumer whose offset a transaction is about to commit waits for its end, and goes on from there.

With librdkafka this is more than a client does by itself: against Apache Kafka (4.3.1, librdkafka 2.16) the second of
these consumers begins at the start of its first partition.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.interop.server import Server
from tests.interop.transactional import TIMEOUT_S, consumer_of, producer_of, transaction
from tests.interop.waiting import eventually


@pytest.mark.parametrize("is_given_another", [False, True])
def test_a_consumer_waits_for_a_stable_offset(server: Server, is_given_another: bool) -> None:
    topic, producer = server.topic(partitions=2), producer_of(server, server.name("id"), timeout_ms=60_000)
    transaction(producer, topic, *map(str, range(8)), partitions=2)
    producer.commit_transaction(TIMEOUT_S)
    with consumer_of(server, server.name("group"), **{"retry.backoff.ms": 20, "retry.backoff.max.ms": 20}) as consumer:
        _send_offset(producer, consumer, TopicPartition(topic, 0, 2))
        producer.commit_transaction(TIMEOUT_S)
        eventually(lambda: _committed(consumer, topic) == 2, "the first offset is committed")
        _send_offset(producer, consumer, TopicPartition(topic, 0, 3))
        consumer.assign([TopicPartition(topic, 0)])
        assert list(_coming(consumer, 0.3)) == []
        if is_given_another:
            consumer.incremental_assign([TopicPartition(topic, 1)])
            assert {message.partition() for message in _coming(consumer, 0.5)} <= {1}
        producer.commit_transaction(TIMEOUT_S)
        first = next(message for message in _coming(consumer, TIMEOUT_S) if message.partition() == 0)
        assert first.offset() == 3


def _send_offset(producer: Producer, consumer: Consumer, where: TopicPartition) -> None:
    producer.begin_transaction()
    producer.send_offsets_to_transaction([where], consumer.consumer_group_metadata(), TIMEOUT_S)


def _committed(consumer: Consumer, topic: str) -> int:
    (row,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    return row.offset


def _coming(consumer: Consumer, quiet_s: float) -> Iterator[Message]:
    """Until nothing comes for that long."""
    while (message := consumer.poll(quiet_s)) is not None:
        if message.error() is None:
            yield message
