"""Producers that send at a given rate whatever comes back, and know what was acknowledged and how long it took."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

QUIET = {"log_level": 0}
# One step of the clock that paces the producers.
STEP_S = 0.005


class Sample(NamedTuple):
    """One message of the producer that is watched: when it was sent, and how long its acknowledgement took."""

    sent_s: float
    latency_s: float


class Load:
    """`producers` send `rate` messages per second together; the first of them is watched.

    All of them run all the time, and the rate can change: so no phase begins with connections being made.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, producers: int, message_bytes: int) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[KafkaError] = []
        self._samples: list[Sample] = []
        # When the watched messages were sent that are not answered yet.
        self._unanswered: dict[int, float] = {}
        # Not sent, because the client's own queue was full.
        self.held_back = 0
        self._topic = topic
        self._partitions = partitions
        self._padding = bytes(message_bytes)
        self._producers = [Producer(_settings(bootstrap)) for _ in range(producers)]
        self._active = 1
        self._rate = 0.0
        self._sent = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def set_rate(self, per_producer: float, active: int) -> None:
        self._active = active
        self._rate = per_producer

    def stop(self) -> None:
        """Returns when everything that was sent is answered."""
        self._stopping.set()
        self._thread.join()
        for producer in self._producers:
            left = producer.flush(60)
            assert left == 0, f"{left} messages were never answered"

    def latency_s(self, since_s: float, until_s: float, share: float) -> float:
        """What this share of the watched messages that were sent in that time stayed below, as far as is known."""
        now_s = time.monotonic()
        waiting = [Sample(sent_s, now_s - sent_s) for sent_s in list(self._unanswered.values())]
        samples = list(self._samples) + waiting
        found = sorted(sample.latency_s for sample in samples if since_s <= sample.sent_s < until_s)
        assert found, "nothing was sent in that time"
        return found[min(len(found) - 1, int(share * len(found)))]

    def _run(self) -> None:
        due = 0.0
        last_s = time.monotonic()
        while not self._stopping.wait(STEP_S):
            now_s = time.monotonic()
            due += (now_s - last_s) * self._rate
            last_s = now_s
            while due >= 1:
                due -= 1
                for number, producer in enumerate(self._producers[: self._active]):
                    self._send(number, producer)
            for producer in self._producers:
                producer.poll(0)

    def _send(self, number: int, producer: Producer) -> None:
        self._sent += 1
        sequence, sent_s = self._sent, time.monotonic()
        value = b"%d:%d:" % (number, sequence)
        partition = sequence % self._partitions

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(error)
                return
            offset = message.offset()
            assert offset is not None
            self.acknowledged[partition, offset] = value
            if number == 0:
                self._samples.append(Sample(sent_s, time.monotonic() - sent_s))
                self._unanswered.pop(sequence, None)

        try:
            producer.produce(self._topic, value + self._padding, partition=partition, on_delivery=delivered)
        except BufferError:
            self.held_back += 1
            return
        if number == 0:
            self._unanswered[sequence] = sent_s


def _settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 0,
        "message.timeout.ms": 120_000,
        # Little is queued at the client, so that the wait is at the broker, which this is about.
        "queue.buffering.max.messages": 2_000,
        **QUIET,
    }


def lost(bootstrap: str, topic: str, partitions: int, acknowledged: dict[tuple[int, int], bytes]) -> int:
    """How many of the acknowledged messages are not where they were acknowledged."""
    left = dict(acknowledged)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True, **QUIET},
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    at_end: set[int] = set()
    while len(at_end) < partitions:
        for message in consumer.consume(2_000, 0.1):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                offset, value = message.offset(), message.value()
                assert offset is not None and value is not None
                expected = left.pop((partition, offset), None)
                assert expected is None or value.startswith(expected), f"{partition}:{offset} holds another message"
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                at_end.add(partition)
    consumer.close()
    return len(left)
