"""A small history of workers that did each input once, though not at the first attempt, for tests to spoil."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tests.cluster.history.events import (
    Acked,
    AnyEvent,
    CommitBegun,
    Drained,
    Read,
    Sent,
    TransactionEnded,
    value_name,
)
from tests.cluster.history.recording import in_order

INPUTS, OUTPUTS = "inputs", "outputs"
WORKERS, AUDIT = "workers", "audit"
PARTITIONS = 3


class Fate(enum.Enum):
    """Of an attempt."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    # Its worker died; the timeout ended it.
    LEFT_OPEN = "left open"
    # The worker died after it had asked.
    COMMITTED_UNHEARD = "committed, and nobody heard"
    ABORTED_UNHEARD = "aborted, and nobody heard"

    @property
    def shows(self) -> bool:
        return self in (Fate.COMMITTED, Fate.COMMITTED_UNHEARD)


class CleanTransactions:
    """Each transaction does `size` inputs; one that does not commit is followed by others, until one does."""

    def __init__(self, fates: Sequence[Fate], size: int) -> None:
        self.events: list[AnyEvent] = []
        self._now_ns = 0
        self._next_output = 0
        self._ends = dict.fromkeys(range(PARTITIONS), 0)
        inputs: list[str] = []
        self._transactions = 0
        for fate in (*fates, Fate.COMMITTED):
            inputs = inputs or self._inputs(size)
            self._attempt(inputs, fate)
            if fate.shows:
                inputs = []
        for group, topic in ((WORKERS, INPUTS), (AUDIT, OUTPUTS)):
            self.events.append(Drained(at_ns=self._tick(), group=group, topic=topic))
        self.events = in_order(self.events)

    def _tick(self) -> int:
        self._now_ns += 10
        return self._now_ns

    def _inputs(self, size: int) -> list[str]:
        first = sum(isinstance(event, Acked) and event.topic == INPUTS for event in self.events)
        for number in range(first, first + size):
            where: dict[str, Any] = {"topic": INPUTS, "partition": 0}
            self.events += [
                Sent(at_ns=self._tick(), **where, producer="p", number=number),
                Acked(at_ns=self._tick(), **where, producer="p", number=number, offset=number),
            ]
        return [value_name("p", number) for number in range(first, first + size)]

    def _attempt(self, inputs: list[str], fate: Fate) -> None:
        transaction = f"w/{self._transactions}"
        self._transactions += 1
        outputs: list[Sent] = []
        for value in inputs:
            offset = int(value.partition(":")[2])
            where: dict[str, Any] = {"topic": INPUTS, "partition": 0, "offset": offset, "value": value}
            self.events.append(Read(at_ns=self._tick(), **where, reader="w", group=WORKERS, committed_only=True))
            number = self._next_output
            self._next_output += 1
            sent = Sent(
                at_ns=self._tick(),
                topic=OUTPUTS,
                partition=number % PARTITIONS,
                producer="w",
                number=number,
                transaction=transaction,
                source=value,
            )
            outputs.append(sent)
        self.events += outputs
        if fate not in (Fate.ABORTED, Fate.LEFT_OPEN):
            self.events.append(CommitBegun(at_ns=self._tick(), transaction=transaction))
        if fate in (Fate.COMMITTED, Fate.ABORTED):
            ended = TransactionEnded(at_ns=self._tick(), transaction=transaction, committed=fate.shows)
            self.events.append(ended)
        for sent in outputs:
            if fate.shows:
                self.events.append(reading(sent, self._ends[sent.partition], self._tick()))
            self._ends[sent.partition] += 1


def reading(sent: Sent, offset: int, at_ns: int) -> Read:
    """By the audit."""
    return Read(
        at_ns=at_ns,
        topic=sent.topic,
        partition=sent.partition,
        reader="a",
        group=AUDIT,
        offset=offset,
        value=value_name(sent.producer, sent.number),
        committed_only=True,
    )
