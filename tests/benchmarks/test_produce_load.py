"""What the load generator's producers leave in a log, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.load.job import LoadFailed
from benchmarks.load.librdkafka import RawProducer
from benchmarks.load.produce import Produce, Single
from benchmarks.load.source import Arrivals, Source
from benchmarks.session import generate
from benchmarks.topics import create_topic
from confluent_kafka import Consumer, TopicPartition
from tests.interop.stored import stored_batches

from benchmarks import sink
from penstock.testing import TestNode, node

_TOPIC = "load"


@pytest.fixture(scope="module")
def broker() -> Iterator[TestNode]:
    with node() as started:
        create_topic(started.bootstrap, _TOPIC, 1, 1)
        yield started


def test_every_message_arrives_once_in_order_and_with_its_bytes(broker: TestNode) -> None:
    source = Source(Produce(address=broker.bootstrap, topic=_TOPIC, messages=0), {})
    source.send(b"first" * 20, 3)
    # Nothing was answered yet, perhaps, and the memory of the first ones has to be theirs still.
    source.send(b"second" * 20, 25_000)
    source.send_one(b"third")
    source.finish()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "load"})
    consumer.assign([TopicPartition(_TOPIC, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < 25_004:
        found += [message.value() for message in consumer.consume(1_000, 0.1)]
    consumer.close()
    assert found == [b"first" * 20] * 3 + [b"second" * 20] * 25_000 + [b"third"]


@pytest.mark.parametrize(
    "count, expected",
    [(7, [3, 3, 1]), (4_000, [1_968, 1_048, 984])],
    ids=["few, so that every partition gets some", "more than one batch each"],
)
def test_batches_go_to_one_partition_after_the_other(broker: TestNode, count: int, expected: list[int]) -> None:
    topic = f"in-turn-{count}"
    create_topic(broker.bootstrap, topic, 3, 1)
    job = Produce(address=broker.bootstrap, topic=topic, messages=0)
    source, arrivals = Source(job, {}), Arrivals(job)
    source.send_in_turn(b"x" * 1000, count, 3)
    source.finish()
    assert arrivals.end_offsets() == expected


def test_batches_are_no_larger_than_a_job_says(broker: TestNode) -> None:
    create_topic(broker.bootstrap, "batches", 1, 1)
    outcome = generate(
        Produce(address=broker.bootstrap, topic="batches", messages=984, batch_bytes=16_384, in_flight=5)
    )
    counts = [batch.record_count for batch in stored_batches(broker.bootstrap, "batches")]
    assert sum(counts) == outcome.messages
    assert max(counts) == 16


def test_a_job_counts_what_was_acknowledged(broker: TestNode) -> None:
    outcome = generate(Single(address=broker.bootstrap, topic=_TOPIC, messages=64, producers=4))
    assert outcome.messages == 64
    assert outcome.generator_cpu_s > 0


def test_a_sink_answers_a_producer() -> None:
    with sink.running() as address:
        outcome = generate(Produce(address=address, topic=sink.TOPIC, messages=3_000))
    assert outcome.messages == 3_000


def test_a_setting_that_librdkafka_does_not_know_is_said() -> None:
    with pytest.raises(LoadFailed, match=r"linger\.years"):
        RawProducer("any", {"linger.years": 1})
