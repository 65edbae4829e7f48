"""What fills a cluster for a large audit, and what goes on writing to it meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import KafkaException, Producer

from penstock.units import GIB, KIB, MIB

# Of incompressible bytes, from which values are cut.
_NOISE = random.Random(1).randbytes(4 * MIB)


class Filled(NamedTuple):
    """`total_bytes`: of values, of one replica. `keys`: how many different ones, if any."""

    name: str
    partitions: int
    total_bytes: int
    value_bytes: int
    config: dict[str, str]
    keys: int = 0
    transaction_records: int = 0


ORDERS = Filled("orders", 6, 3 * GIB + 100 * MIB, 64 * KIB, {})
ACCOUNTS = Filled(
    "accounts",
    2,
    96 * MIB,
    4 * KIB,
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3", "segment.bytes": str(16 * MIB)},
    keys=3000,
)
PAYMENTS = Filled("payments", 2, 96 * MIB, 8 * KIB, {"segment.bytes": str(16 * MIB)}, transaction_records=200)
EVENTS = Filled(
    "events",
    2,
    400 * MIB,
    32 * KIB,
    {"segment.bytes": str(16 * MIB), "retention.bytes": str(100 * MIB), "file.delete.delay.ms": "1000"},
)


def fill(bootstrap: str, topic: Filled) -> None:
    """With large batches; every third transaction is aborted."""
    settings = {"acks": "all", "linger.ms": 20, "batch.size": 900 * KIB, "queue.buffering.max.kbytes": 64 * 1024}
    if topic.transaction_records:
        settings |= {"transactional.id": f"fill {topic.name}", "batch.size": 64 * KIB}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    records = topic.total_bytes // topic.value_bytes
    if topic.transaction_records:
        producer.init_transactions(60)
        for number, first in enumerate(range(0, records, topic.transaction_records)):
            producer.begin_transaction()
            _produce(producer, topic, range(first, min(records, first + topic.transaction_records)))
            _end(producer, is_commit=number % 3 != 1)
    else:
        _produce(producer, topic, range(records))
        assert producer.flush(300) == 0


def _produce(producer: Producer, topic: Filled, numbers: range) -> None:
    for number in numbers:
        at = number * 4099 % (len(_NOISE) - topic.value_bytes)
        value = _NOISE[at : at + topic.value_bytes]
        key = b"%d" % (number * 7919 % topic.keys) if topic.keys else None
        partition = number * 7919 % topic.keys % topic.partitions if topic.keys else number % topic.partitions
        while True:
            try:
                producer.produce(topic.name, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)


def _end(producer: Producer, *, is_commit: bool) -> None:
    assert producer.flush(60) == 0
    if is_commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


class LightLoad:
    """Some hundred records a second to all topics, until the block is left. `written`: by topic."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self.written: dict[str, int] = {topic.name: 0 for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS)}
        self._failures: list[Exception] = []
        works: tuple[Callable[[], None], ...] = (self._plainly, self._in_transactions)
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)
        assert kind is not None or not self._failures, self._failures

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (KafkaException, AssertionError) as failure:
            self._failures.append(failure)

    def _plainly(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, "acks": "all", "linger.ms": 5})
        number = 0
        while not self._ended.wait(0.1):
            for topic in (ORDERS, ACCOUNTS, EVENTS):
                for _ in range(10):
                    number += 1
                    key = b"live %d" % (number % 500)
                    producer.produce(topic.name, _NOISE[number : number + KIB], key, number % topic.partitions)
                    self.written[topic.name] += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    def _in_transactions(self) -> None:
        settings = {"transactional.id": "live", "linger.ms": 5}
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, **settings})
        producer.init_transactions(60)
        number = 0
        while not self._ended.wait(0.2):
            producer.begin_transaction()
            for place in range(10):
                producer.produce(PAYMENTS.name, _NOISE[place : place + KIB], partition=place % PAYMENTS.partitions)
                self.written[PAYMENTS.name] += 1
            number += 1
            _end(producer, is_commit=number % 4 != 0)
