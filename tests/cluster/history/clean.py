"""A small history of a cluster that did everything right, for tests of the checker to spoil."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tests.cluster.history.events import (
    Acked,
    AnyEvent,
    Committed,
    CommittedSeen,
    Drained,
    EndSeen,
    Failed,
    Leading,
    Owned,
    Read,
    Replica,
    Sent,
    Stored,
    StoredRecord,
    Unknown,
    Watermark,
    value_name,
)
from tests.cluster.history.recording import in_order

TOPIC, GROUP = "orders", "billing"
BROKERS = (1, 2, 3)
# Every partition changes its leader there.
EPOCH_LENGTH = 4


class CleanHistory:
    """Each partition gets `length` values of each of two producers in turn; one value is refused, one is unknown."""

    def __init__(self, partitions: int = 2, length: int = 4) -> None:
        self.events: list[AnyEvent] = []
        self._now_ns = 0
        self._numbers = {"anna": 0, "bert": 0}
        self._logs: dict[int, list[str]] = {partition: [] for partition in range(partitions)}
        for partition in range(partitions):
            self._owned(partition)
        for _ in range(length):
            for partition in range(partitions):
                for producer in self._numbers:
                    self._acked(partition, producer)
        for partition in range(partitions):
            self._not_acked(partition)
            self._read_again(partition)
            for broker in BROKERS:
                self._replica(partition, broker)
        self.events.append(Drained(at_ns=self._tick(), group=GROUP, topic=TOPIC))
        self.events = in_order(self.events)

    def _tick(self) -> int:
        self._now_ns += 10
        return self._now_ns

    def _owned(self, partition: int) -> None:
        owner: dict[str, Any] = {"topic": TOPIC, "partition": partition, "group": GROUP}
        for generation, member in ((1, "m1"), (2, "m2" if partition else "m1")):
            self.events.append(
                Owned(at_ns=self._tick() + generation * 1000 + 3, **owner, member=member, generation=generation)
            )

    def _acked(self, partition: int, producer: str) -> None:
        number = self._numbers[producer]
        self._numbers[producer] += 1
        log = self._logs[partition]
        offset, epoch, value = len(log), len(log) // EPOCH_LENGTH, value_name(producer, number)
        log.append(value)
        leader = BROKERS[epoch % len(BROKERS)]
        where: dict[str, Any] = {"topic": TOPIC, "partition": partition}
        for observer in (f"broker-{leader}", "metadata"):
            event = Leading(at_ns=self._tick(), **where, observer=observer, leader=leader, leader_epoch=epoch)
            self.events.append(event)
        sent_ns, acked_ns, asked_ns = self._tick(), self._tick(), self._tick()
        self.events += [
            Sent(at_ns=sent_ns, **where, producer=producer, number=number),
            Watermark(at_ns=sent_ns + 1, **where, broker=leader, leader_epoch=epoch, offset=offset + 1),
            Acked(at_ns=acked_ns, **where, producer=producer, number=number, offset=offset),
            Read(at_ns=self._tick(), **where, reader="r1", group=GROUP, offset=offset, value=value),
            EndSeen(at_ns=self._tick(), **where, reader="r1", offset=offset + 1),
            Committed(at_ns=asked_ns, **where, group=GROUP, member="m1", offset=offset + 1),
            CommittedSeen(
                at_ns=self._tick(), asked_ns=asked_ns + 1, **where, group=GROUP, reader="r2", offset=offset + 1
            ),
        ]

    def _not_acked(self, partition: int) -> None:
        where: dict[str, Any] = {"topic": TOPIC, "partition": partition}
        for kind in (Failed, Unknown):
            number = self._numbers["anna"]
            self._numbers["anna"] += 1
            self.events.append(Sent(at_ns=self._tick(), **where, producer="anna", number=number))
            self.events.append(kind(at_ns=self._tick(), **where, producer="anna", number=number))
        # It got there all the same.
        self._logs[partition].append(value_name("anna", number))

    def _read_again(self, partition: int) -> None:
        for offset, value in enumerate(self._logs[partition]):
            self.events.append(
                Read(at_ns=self._tick(), topic=TOPIC, partition=partition, reader="r2", offset=offset, value=value)
            )

    def _replica(self, partition: int, broker: int) -> None:
        log = self._logs[partition]
        self.events.append(
            Replica(
                at_ns=self._tick(),
                topic=TOPIC,
                partition=partition,
                broker=broker,
                log_start=0,
                high_watermark=len(log),
            )
        )
        self.events += [
            stored(partition, broker, base, log[base : base + 2], base // EPOCH_LENGTH, self._tick())
            for base in range(0, len(log), 2)
        ]


def stored(partition: int, broker: int, base: int, values: Sequence[str], epoch: int, at_ns: int) -> Stored:
    return Stored(
        at_ns=at_ns,
        topic=TOPIC,
        partition=partition,
        broker=broker,
        base_offset=base,
        last_offset=base + len(values) - 1,
        leader_epoch=epoch,
        digest=hashlib.sha256(f"{base} {epoch} {values}".encode()).hexdigest()[:16],
        records=tuple(StoredRecord(base + n, value) for n, value in enumerate(values)),
    )
