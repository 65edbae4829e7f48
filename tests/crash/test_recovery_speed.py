"""How long a broker that was killed needs until it answers again. Needs 12 GB of disk for some minutes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.crash.broker import QUIET, CrashingBroker, crashing_broker

from penstock.units import GIB, KIB, MIB

Record = Callable[[str, object], None]
TOPIC = "orders"
MESSAGE_BYTES = 10 * KIB
MOST_SECONDS = 3.0
MOST_SECONDS_PER_UNFLUSHED_GB = 1.0


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Emptied whatever happens: pytest would keep it for days."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def fill(broker: CrashingBroker, partitions: int, bytes_each: int) -> dict[int, int]:
    """Everything acknowledged with acks=1; partition → how many messages."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "batch.size": 256 * KIB,
            "queue.buffering.max.messages": 5000,
            **QUIET,
        }
    )
    value = bytes(range(256)) * (MESSAGE_BYTES // 256)
    count = bytes_each // MESSAGE_BYTES
    for _ in range(count):
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(300) == 0
    assert not failures, failures[0]
    return dict.fromkeys(range(partitions), count)


def ends(broker: CrashingBroker, partitions: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", **QUIET})
    try:
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=20)[1]
            for partition in range(partitions)
        }
    finally:
        consumer.close()


@pytest.mark.torture("recovery")
def test_ten_gigabytes_are_back_within_three_seconds(directory: Path, record_property: Record) -> None:
    partitions = 5
    with crashing_broker(directory) as broker:
        broker.create_topic(TOPIC, partitions)
        written = fill(broker, partitions, 2 * GIB)
        broker.kill()
        seconds = broker.start()
        assert ends(broker, partitions) == written
        size = sum(path.stat().st_size for path in broker.data_dir.glob("topics/*/*/*.log"))
    record_property("gigabytes", round(size / 1e9, 2))
    record_property("seconds_until_it_answers", round(seconds, 2))
    assert size >= 10 * GIB
    assert seconds < MOST_SECONDS


@pytest.mark.torture("recovery")
def test_what_is_not_flushed_costs_at_most_a_second_per_gigabyte(directory: Path, record_property: Record) -> None:
    # With flush.policy=os a log asks for a sync by itself after 64 MiB, so that many logs are needed.
    partitions, bytes_each = 24, 60 * MIB
    with crashing_broker(directory, {"flush.policy": "os"}) as broker:
        broker.kill()
        baseline_seconds = broker.start()
        broker.create_topic(TOPIC, partitions)
        written = fill(broker, partitions, bytes_each)
        broker.kill()
        seconds = broker.start()
        assert ends(broker, partitions) == written
        size = sum(path.stat().st_size for path in broker.data_dir.glob("topics/orders/*/*.log"))
    unflushed_gb = size / 1e9
    recovery_seconds = seconds - baseline_seconds
    record_property("unflushed_gigabytes", round(unflushed_gb, 2))
    record_property("seconds_until_it_answers", round(seconds, 2))
    record_property("seconds_of_a_start_without_data", round(baseline_seconds, 2))
    record_property("recovery_seconds_per_gigabyte", round(recovery_seconds / unflushed_gb, 2))
    assert unflushed_gb >= 1
    assert recovery_seconds <= MOST_SECONDS_PER_UNFLUSHED_GB * unflushed_gb
