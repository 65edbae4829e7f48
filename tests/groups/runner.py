"""Drives a groups machine as the real runner does, in memory and with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from penstock.groups.core.answers import GroupAnswer
from penstock.groups.core.machine import GroupEvent, GroupsMachine
from penstock.groups.core.records import Record, decode, encode
from penstock.replication.core.machine import Answered, Tick, Ticket

A = TypeVar("A")


class Pending(Generic[A]):
    """An answer that is there or will come."""

    def __init__(self) -> None:
        self.answers: list[A] = []

    @property
    def done(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> A:
        assert len(self.answers) == 1, f"expected one answer, got {self.answers}"
        return self.answers[0]


class Runner:
    """Records go through their bytes, every decision is made twice and must come out the same, and answers leave at

    once: here every append is committed.
    """

    def __init__(self, make: Callable[[], GroupsMachine], now_ms: int = 1_000_000) -> None:
        self._make = make
        self.now_ms = now_ms
        self.log: list[tuple[bytes, bytes | None]] = []
        self.largest_decision = 0
        self.parked: dict[Ticket, Pending[GroupAnswer]] = {}
        self.machine = make()
        self.run_due()

    def submit(self, event: GroupEvent) -> Pending[GroupAnswer]:
        decision = self.machine.decide(event, self.now_ms)
        again = self.machine.decide(event, self.now_ms)
        assert decision == again, "a decision changed something, or depends on more than the event and the state"
        self.largest_decision = max(self.largest_decision, len(decision.records))
        pending: Pending[GroupAnswer] = Pending()
        for record in decision.records:
            self._append(record)
        for note in decision.notes:
            self.machine.remember(note)
        if isinstance(decision.answer, Answered):
            pending.answers.append(decision.answer.answer)
        else:
            assert decision.answer.ticket not in self.parked, "a ticket was given twice"
            self.parked[decision.answer.ticket] = pending
        for release in decision.releases:
            self.parked.pop(release.ticket).answers.append(release.answer)
        return pending

    def _append(self, record: Record) -> None:
        key, value = encode(record)
        assert decode(key, value) == record
        self.log.append((key, value))
        self.machine.apply(decode(key, value))

    def ask(self, event: GroupEvent, kind: type[A]) -> A:
        """Submits an event that is answered at once, and checks what kind of answer it gets."""
        answer = self.submit(event).answer
        assert isinstance(answer, kind)
        return answer

    def advance(self, by_ms: int) -> None:
        """Time passes; whatever falls due in between runs at its own moment."""
        target_ms = self.now_ms + by_ms
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= target_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.run_due()
        self.now_ms = target_ms

    def run_due(self) -> None:
        for _ in range(1000):
            due_ms = self.machine.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self.submit(Tick())
        raise AssertionError("the machine asks for one tick after another without end")

    def restart(self, *, compacted: bool = False) -> None:
        """A new machine from the log, or from what compaction would leave of it. What was parked is lost."""
        self.parked.clear()
        if compacted:
            newest = dict(self.log)
            last_place = {key: place for place, (key, _) in enumerate(self.log)}
            self.log = [
                (key, value)
                for place, (key, value) in enumerate(self.log)
                if last_place[key] == place and newest[key] is not None
            ]
        self.machine = self._make()
        for key, value in self.log:
            self.machine.apply(decode(key, value))
        self.run_due()


def answer_of(pending: Pending[GroupAnswer], kind: type[A]) -> A:
    answer = pending.answer
    assert isinstance(answer, kind)
    return cast(A, answer)
