"""A producer that goes on whatever happens to the broker, and knows exactly what was acknowledged."""

from __future__ import annotations

import threading
from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.crash.broker import QUIET

# Enough to keep several batches in flight, few enough that a restart is not followed by minutes of catching up.
IN_FLIGHT = 2000


class Load:
    """Writes 0, 1, 2, … to each partition with an idempotent acks=all producer until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, in_flight: int = IN_FLIGHT) -> None:
        # offset → sequence, per partition: what the broker has promised to keep
        self.acknowledged: defaultdict[int, dict[int, int]] = defaultdict(dict)
        # The same without an offset: librdkafka takes what it has no answer for as acknowledged when a later batch is.
        self.implied: defaultdict[int, list[int]] = defaultdict(list)
        self.failures: list[KafkaError] = []
        self._topic = topic
        self._partitions = partitions
        self._in_flight = in_flight
        self._sent = [0] * partitions
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                # Starting from the bootstrap servers again takes it a second or two, and there is only one broker.
                "metadata.recovery.strategy": "none",
                **QUIET,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def acknowledged_count(self) -> int:
        return sum(len(offsets) for offsets in list(self.acknowledged.values()))

    def stop(self) -> None:
        """Waits until everything sent is acknowledged."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert left == 0, f"{left} messages were never answered"

    def _run(self) -> None:
        while not self._stopping.is_set():
            if len(self._producer) >= self._in_flight:
                self._producer.poll(0.01)
                continue
            for partition in range(self._partitions):
                value = str(self._sent[partition]).encode()
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self._sent[partition] += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            offset, partition, value = message.offset(), message.partition(), message.value()
            assert partition is not None and value is not None
            if offset is None:
                self.implied[partition].append(int(value))
            else:
                self.acknowledged[partition][offset] = int(value)

    @property
    def sent(self) -> list[int]:
        return list(self._sent)


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, dict[int, int]]:
    """offset → sequence, per partition, from the start to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    read: dict[int, dict[int, int]] = {partition: {} for partition in range(partitions)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    at_end: set[int] = set()
    while len(at_end) < partitions:
        for message in consumer.consume(1000, 0.05):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                offset, value = message.offset(), message.value()
                assert offset is not None and value is not None
                assert offset not in read[partition], f"offset {offset} was read twice"
                read[partition][offset] = int(value)
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(partition)
            else:
                raise AssertionError(f"reading {topic}-{partition}: {error}")
    consumer.close()
    return read
