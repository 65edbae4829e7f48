"""Drives a transactions machine as the real runner does, in memory: commits when it is told to, and dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from penstock.replication.core.machine import Answered, Tick
from penstock.transactions.core.answers import ProducerAnswer
from penstock.transactions.core.events import EndTransaction, InitProducerId, MarkersWritten
from penstock.transactions.core.machine import TransactionEvent, TransactionsMachine
from penstock.transactions.core.orders import WriteMarkers
from penstock.transactions.core.query_answers import AttemptAnswer
from penstock.transactions.core.query_events import OpenAttempt
from penstock.transactions.core.records import StateRecord, decode, encode
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import Transaction

A = TypeVar("A")
OnAnswer = Callable[[MachineAnswer], None]


@dataclass
class Waiting:
    """What leaves when the log is committed."""

    answer: MachineAnswer
    on_answer: OnAnswer
    orders: tuple[object, ...]


class Runner:
    """Records go through their bytes, and every decision is made twice and must come out the same."""

    def __init__(self, make: Callable[[], TransactionsMachine], now_ms: int = 1_000_000) -> None:
        self._make = make
        self.now_ms = now_ms
        self.log: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        # Records of one decision are one batch: all of it is there, or nothing.
        self._batch_ends: list[int] = []
        self._waiting: list[Waiting] = []
        # Given out, and not yet done.
        self.orders: list[WriteMarkers] = []
        self.on_order: Callable[[WriteMarkers], None] = lambda order: None
        self.on_record: Callable[[StateRecord], None] = lambda record: None
        self._fresh_id = 1000
        self.machine = make()
        self.run_due()

    def submit(self, event: TransactionEvent, on_answer: OnAnswer = lambda answer: None) -> MachineAnswer:
        """As the shell does it: who needs a fresh producer id gets one. Returned is what will be answered."""
        decision = self.machine.decide(event, self.now_ms)
        assert decision == self.machine.decide(event, self.now_ms), "a decision changed something"
        assert isinstance(decision.answer, Answered)
        answer = decision.answer.answer
        if isinstance(answer, ProducerAnswer | AttemptAnswer) and answer.needs_producer_id:
            assert isinstance(event, InitProducerId | EndTransaction | OpenAttempt) and not decision.records
            self._fresh_id += 1
            return self.submit(replace(event, fresh_producer_id=self._fresh_id), on_answer)
        for record in decision.records:
            self.append(record)
        self._batch_ends.append(len(self.log))
        for note in decision.notes:
            self.machine.remember(note)
        self._waiting.append(Waiting(answer, on_answer, decision.orders))
        return answer

    def append(self, record: StateRecord) -> None:
        key, value = encode(record)
        assert decode(key, value) == record
        self.on_record(record)
        self.log.append((key, value))
        self.machine.apply(decode(key, value))

    def commit(self) -> None:
        self.committed = len(self.log)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.on_answer(each.answer)
            for order in each.orders:
                assert isinstance(order, WriteMarkers)
                self._take(order)

    def ask(self, event: TransactionEvent, kind: type[A]) -> A:
        """Submits, commits, and checks what kind of answer it gets."""
        answers: list[MachineAnswer] = []
        self.submit(event, answers.append)
        self.commit()
        (answer,) = answers
        assert isinstance(answer, kind)
        return answer

    def _take(self, order: WriteMarkers) -> None:
        self.on_order(order)
        self.orders.append(order)

    def write_markers(self) -> None:
        """All that are ordered; commits."""
        self.commit()
        orders, self.orders = self.orders, []
        for order in orders:
            self.submit(MarkersWritten(order.transactional_id, order.ends))
        self.commit()

    def advance(self, by_ms: int) -> None:
        """Time passes; whatever falls due in between runs at its own moment."""
        target_ms = self.now_ms + by_ms
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= target_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.run_due()
        self.now_ms = target_ms

    def run_due(self) -> None:
        for _ in range(10_000):
            due_ms = self.machine.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self.submit(Tick())
        raise AssertionError("the machine asks for one tick after another without end")

    def die(self, *, lost: int = 0, compacted: bool = False) -> None:
        """The next machine replays; so many uncommitted records are gone, or a few more, and so are their answers."""
        left = max(self.committed, len(self.log) - lost)
        whole = [end for end in self._batch_ends if self.committed <= end <= left]
        self.log = self.log[: max(whole, default=self.committed)]
        self._waiting.clear()
        if compacted:
            newest = {key: value for key, value in self.log if value is not None}
            last_place = {key: place for place, (key, _) in enumerate(self.log)}
            self.log = [
                (key, value)
                for place, (key, value) in enumerate(self.log)
                if last_place[key] == place and (value is not None and key in newest)
            ]
        self.committed = len(self.log)
        self._batch_ends.clear()
        self.machine = self._make()
        for key, value in self.log:
            self.machine.apply(decode(key, value))
        self.orders.clear()
        for order in self.machine.open_orders():
            self._take(order)
        self.run_due()

    def transaction(self, transactional_id: str = "id") -> Transaction:
        found = self.machine.state.find(transactional_id)
        assert found is not None
        return found
