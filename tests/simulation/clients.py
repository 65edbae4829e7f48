"""Producers and readers, and what each of them knows for sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulation.broker import Broker
from tests.simulation.history import Finding, History
from tests.simulation.log import Entry, Value, numbered, plain
from tests.simulation.network import Network, Process
from tests.simulation.reading import Consume, Consumed
from tests.simulation.replica import NotProduced, OutOfRange, Produce, Produced

from penstock.coordination.paths import NO_LEADER, PartitionState
from penstock.errors import Problem

PRODUCE_TIMEOUT_MS = 1500
READ_TIMEOUT_MS = 400


class Client(Process):
    """Finds the leader by asking any broker; it never goes back to an older epoch than it has heard of."""

    def __init__(self, name: int, network: Network, brokers: Mapping[int, Broker], history: History) -> None:
        super().__init__(name)
        self.network = network
        self.history = history
        self.brokers = brokers
        self.leader = NO_LEADER
        self.replicas: tuple[int, ...] = ()
        self.leader_epoch = -1

    def refresh(self) -> None:
        broker = self.network.random.choice(list(self.brokers.values()))
        self.network.ask(self, broker, broker.metadata, None, self._on_metadata, READ_TIMEOUT_MS)

    def _on_metadata(self, state: PartitionState | None) -> None:
        if state is not None and state.leader_epoch >= self.leader_epoch:
            self.leader, self.leader_epoch, self.replicas = state.leader, state.leader_epoch, state.replicas
        self.go_on()

    def go_on(self) -> None:
        raise AssertionError("a client does something")


class Producer(Client):
    """Sends values, a few at a time, and waits for the answer before it goes on.

    Without idempotence a value is sent once, so that it is in the log at most once, whatever the answer.
    """

    def __init__(
        self,
        name: int,
        network: Network,
        brokers: Mapping[int, Broker],
        history: History,
        *,
        acks_all: bool,
        idempotent: bool,
        pause_ms: int,
    ) -> None:
        super().__init__(name, network, brokers, history)
        self.acks_all = acks_all
        self.idempotent = idempotent
        self._pause_ms = pause_ms
        self.is_stopping = False
        self.is_done = False
        self._sending: tuple[Value, ...] = ()
        self._sent = 0
        self._producer_id = -name
        self._first = 0
        self.sent: dict[Value, int] = {}
        # By value: the offset, and when that was known.
        self.acked: dict[Value, tuple[int, int]] = {}
        # Told that it was not written, before any of it was.
        self.refused: list[Value] = []

    def go_on(self) -> None:
        if not self._sending:
            if self.is_stopping:
                self.is_done = True
                return
            self._sending = self._next()
        if self.leader == NO_LEADER:
            self._later()
            return
        target = self.brokers[self.leader]
        request = Produce(self._sending, self.acks_all, self.leader_epoch)
        once = not self.idempotent
        self.network.ask(self, target, target.produce, request, self._on_answer, PRODUCE_TIMEOUT_MS, once=once)

    def _next(self) -> tuple[Value, ...]:
        values = []
        for _ in range(self.network.random.choice((1, 1, 2, 3))):
            name = f"{self.name}/{self._sent}"
            sequence = self._sent - self._first
            values.append(numbered(name, self._producer_id, sequence) if self.idempotent else plain(name))
            self.sent[values[-1]] = self.network.now_ms
            self._sent += 1
        return tuple(values)

    def _on_answer(self, answer: Any) -> None:
        if isinstance(answer, Produced):
            for value, offset in zip(self._sending, answer.offsets, strict=True):
                self.acked[value] = (offset, self.network.now_ms)
            self._sending = ()
        elif self.idempotent:
            if isinstance(answer, NotProduced) and answer.problem is Problem.OUT_OF_ORDER_SEQUENCE:
                self._begin_anew()
        else:
            if isinstance(answer, NotProduced) and answer.is_certain:
                self.refused += self._sending
            self._sending = ()
        if isinstance(answer, Produced):
            self.network.after(1 + int(self.network.random.random() * self._pause_ms), self, self.go_on)
        else:
            self._later()

    def _begin_anew(self) -> None:
        if not self.history.lost:
            names = [value.name for value in self._sending]
            raise Finding(f"producer {self.name}: {names} do not follow what the log has")
        self._producer_id += 100
        self._first = self._sent
        self._sending = ()

    def _later(self) -> None:
        self.network.after(30 + int(self.network.random.random() * 60), self, self.refresh)


class Reader(Client):
    """Reads from the leader, or from any replica that is in sync, and asks where the end is."""

    def __init__(
        self, name: int, network: Network, brokers: Mapping[int, Broker], history: History, *, anywhere: bool
    ) -> None:
        super().__init__(name, network, brokers, history)
        self.anywhere = anywhere
        self.position = 0
        self.values: dict[int, Entry] = {}
        self.latest = 0
        self._turns = 0

    @property
    def may_go_back(self) -> bool:
        """What it knew was lost in a way that the rules allow."""
        return bool(self.history.lost)

    def go_on(self) -> None:
        self._turns += 1
        if self.leader == NO_LEADER:
            self._later()
        elif self._turns % 4 == 0:
            target = self.brokers[self.leader]
            self.network.ask(self, target, target.latest, self.leader_epoch, self._on_latest, READ_TIMEOUT_MS)
        else:
            node = self.network.random.choice(self.replicas) if self.anywhere else self.leader
            target = self.brokers[node]
            request = Consume(self.position, self.leader_epoch)
            self.network.ask(self, target, target.consume, request, self._on_records, READ_TIMEOUT_MS)

    def _on_records(self, answer: Any) -> None:
        if isinstance(answer, Consumed):
            self._heed(answer.leader_epoch)
            for entry in answer.entries:
                self.values[self.position] = entry
                self.position += 1
        elif isinstance(answer, OutOfRange) and (self.position < answer.start or self.may_go_back):
            self.position = answer.start
        self._later()

    def _on_latest(self, answer: Any) -> None:
        if isinstance(answer, Consumed) and answer.leader_epoch >= self.leader_epoch:
            self._heed(answer.leader_epoch)
            if answer.high_watermark < max(self.latest, self.position) and not self.may_go_back:
                raise Finding(
                    f"reader {self.name} was at {self.position} and knew {self.latest} as the end, "
                    f"now the leader of epoch {answer.leader_epoch} says {answer.high_watermark}"
                )
            self.latest = answer.high_watermark
        self._later()

    def _heed(self, leader_epoch: int) -> None:
        self.leader_epoch = max(self.leader_epoch, leader_epoch)

    def _later(self) -> None:
        self.network.after(40 + int(self.network.random.random() * 120), self, self.refresh)
