"""A producer that goes on whatever happens to the broker, at a steady pace."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_EVERY_S = 0.2
_ROWS = 2
_END_S = 60.0


class Feeding:
    """A few rows to each partition at a time, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.partitions = partitions
        self.sent = 0
        self.failures: list[KafkaError] = []
        self._topic = topic
        self._stopping = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": 600_000,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
            # There is only one broker to be found again.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits until everything sent is acknowledged."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(_END_S)
        assert left == 0, f"{left} rows were never acknowledged"
        assert not self.failures, self.failures[:3]

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            for partition in range(self.partitions):
                self._send(partition)
            self._producer.poll(0)

    def _send(self, partition: int) -> None:
        try:
            for _ in range(_ROWS):
                value = b"row %d" % self.sent
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self.sent += 1
        except KafkaException as error:
            # The partition is new, and the client has not heard of it yet.
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
