"""Producers that cost as little Python as possible, so that the broker is what is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.load.job import PATIENCE_S, Job, LoadFailed
from benchmarks.load.librdkafka import ANY_PARTITION, Batch, RawProducer
from confluent_kafka import Consumer, TopicPartition

_WAIT_FOR_ROOM_S = 0.002
_VISIBLE_S = 10.0
_CHUNK = 1000
# What librdkafka puts into a batch at most, unless told otherwise; a message takes a few bytes more than its value.
BATCH_BYTES = 1_000_000
_MOST_IN_BATCH = 10_000
_FRAMING_BYTES = 16


class Source:
    """A producer for the job's topic. Settings not named are librdkafka's defaults.

    No delivery callbacks: one per message would measure Python. `Arrivals` tells what arrived.
    """

    def __init__(self, job: Job, settings: dict[str, Any]) -> None:
        self._batch_bytes = int(settings.get("batch.size", BATCH_BYTES))
        configured: dict[str, Any] = {
            "bootstrap.servers": job.address,
            "delivery.report.only.error": True,
            "log_level": 3,
        }
        self._producer = RawProducer(job.topic, {**configured, **settings})
        self._producer.await_metadata(PATIENCE_S)

    def send(self, value: bytes, count: int) -> None:
        """Queue `count` equal messages, waiting for room as needed. librdkafka picks each one's partition."""
        self._queue(Batch(value, min(_CHUNK, count)), count, ANY_PARTITION)

    def send_in_turn(self, value: bytes, count: int, partitions: int) -> None:
        """The same, but a full batch to one partition, the next to another, as Kafka's own producer does; a smaller one

        if some would get none. For librdkafka to pick a partition per message takes a third of its processor time.
        """
        full = min(_MOST_IN_BATCH, self._batch_bytes // (len(value) + _FRAMING_BYTES))
        batch = Batch(value, min(full, -(-count // partitions)))
        for number in range(-(-count // batch.count)):
            self._queue(batch, min(batch.count, count - number * batch.count), number % partitions)

    def _queue(self, batch: Batch, count: int, partition: int) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while count:
            queued = self._producer.produce_batch(batch, min(batch.count, count), partition)
            count -= queued
            self._producer.poll(0 if queued else _WAIT_FOR_ROOM_S)
            if time.monotonic() > deadline_s:
                raise LoadFailed(f"{count} messages found no room within {PATIENCE_S:.0f} s")

    def send_one(self, value: bytes) -> None:
        # Answered messages make room only when somebody looks.
        self._producer.poll(0)
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._producer.produce(value):
            if time.monotonic() > deadline_s:
                raise LoadFailed(f"a message found no room within {PATIENCE_S:.0f} s")
            self._producer.poll(_WAIT_FOR_ROOM_S)

    def finish(self) -> None:
        """Returns when everything queued has been answered."""
        left = self._producer.flush(PATIENCE_S)
        if left:
            raise LoadFailed(f"{left} messages were not acknowledged within {PATIENCE_S:.0f} s")


class Arrivals:
    """Counts what a topic gained since this was made: the proof that what was sent has arrived, once."""

    def __init__(self, job: Job) -> None:
        self._asker = Consumer({"bootstrap.servers": job.address, "group.id": "arrivals", "log_level": 3})
        self._topic = job.topic
        partitions = self._asker.list_topics(job.topic, timeout=PATIENCE_S).topics[job.topic].partitions
        self._partitions = [TopicPartition(job.topic, partition) for partition in sorted(partitions)]
        self._before = sum(self.end_offsets())

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        return self._partitions

    def end_offsets(self) -> list[int]:
        return [self._asker.get_watermark_offsets(each, PATIENCE_S)[1] for each in self._partitions]

    def so_far(self) -> int:
        """In offsets: the markers of transactions count too."""
        return sum(self.end_offsets()) - self._before

    def expect(self, count: int) -> None:
        """With acks=1 a reader may see a message a little later than its producer saw the acknowledgement."""
        deadline_s = time.monotonic() + _VISIBLE_S
        while (arrived := self.so_far()) < count and time.monotonic() < deadline_s:
            time.sleep(0.01)
        if arrived != count:
            raise LoadFailed(f"{count} messages were sent, {arrived} arrived in {self._topic}")


def payload(size_bytes: int) -> bytes:
    """Random, so that nothing on the way can compress or deduplicate it."""
    return os.urandom(size_bytes)
