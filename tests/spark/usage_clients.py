"""Clients of many tenants, each of which counts for itself what it has sent or read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.interop.waiting import eventually

WAIT_S = 60.0
_QUIET = {"log_level": 0}


class Senders:
    def __init__(self, bootstrap: str, topic: str, tenants: Iterable[str]) -> None:
        self._topic = topic
        # What was acknowledged.
        self.sent: Counter[str] = Counter()
        self._producers = {
            tenant: Producer({"bootstrap.servers": bootstrap, "client.id": f"{tenant}.web", "linger.ms": 0, **_QUIET})
            for tenant in tenants
        }

    def send(self, tenants: Iterable[str], chance: random.Random) -> None:
        """Some messages of each, until they are acknowledged."""
        chosen = list(tenants)
        for tenant in chosen:
            for number in range(chance.randrange(1, 8)):
                self._producers[tenant].produce(
                    self._topic, f"{tenant} {number}".encode(), on_delivery=self._counting(tenant)
                )
        for tenant in chosen:
            assert self._producers[tenant].flush(WAIT_S) == 0

    def _counting(self, tenant: str) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            self.sent[tenant] += 1

        return delivered


class Reader:
    """Reads all partitions from their beginning, as fast as it is asked to."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, tenant: str) -> None:
        self.read = 0
        client_id = f"{tenant}.reader"
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": client_id, **_QUIET}
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def read_until(self, wanted: int) -> None:
        def is_read() -> bool:
            for message in self._consumer.consume(10_000, 0.1):
                self.read += message.error() is None
            return self.read >= wanted

        eventually(is_read, "all that was sent is read", timeout_s=WAIT_S)

    def close(self) -> None:
        self._consumer.close()
