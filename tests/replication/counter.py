"""The smallest durable machine that does everything a runner must serve: it adds, and it can be waited for."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.replication.core.machine import Answered, Decision, Parked, Release, Tick

# How long somebody may wait for a sum.
PATIENCE_MS = 60_000
GIVEN_UP = -1


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class AddAndTell:
    """Orders that the new sum be told elsewhere."""

    amount: int


@dataclass(frozen=True)
class Sum:
    """Changes nothing."""


@dataclass(frozen=True)
class WaitFor:
    """Answered when the sum has reached it, or with GIVEN_UP."""

    least: int


@dataclass(frozen=True)
class Waiter:
    ticket: int
    least: int
    until_ms: int


@dataclass(frozen=True)
class Released:
    tickets: frozenset[int]


Event = Add | AddAndTell | Sum | WaitFor
Note = Waiter | Released
CounterDecision = Decision[int, int, Note]


class Counter:
    """Durable: the sum. Volatile: who waits for it; who is forgotten is refused and asks again."""

    def __init__(self) -> None:
        self.total = 0
        self._waiters: dict[int, Waiter] = {}
        self._tickets = 0

    def decide(self, event: Event | Tick, now_ms: int) -> CounterDecision:
        match event:
            case Add(amount):
                total = self.total + amount
                reached = [waiter for waiter in self._waiters.values() if waiter.least <= total]
                return Decision(Answered(total), (total,), *_released(reached, total))
            case AddAndTell(amount):
                total = self.total + amount
                return Decision(Answered(total), (total,), orders=(total,))
            case Sum():
                return Decision(Answered(self.total))
            case WaitFor(least):
                ticket = self._tickets + 1
                return Decision(Parked(ticket), (), (Waiter(ticket, least, now_ms + PATIENCE_MS),))
            case Tick():
                late = [waiter for waiter in self._waiters.values() if waiter.until_ms <= now_ms]
                return Decision(Answered(0), (), *_released(late, GIVEN_UP))

    def apply(self, record: int) -> None:
        self.total = record

    def remember(self, note: Note) -> None:
        if isinstance(note, Waiter):
            self._tickets = note.ticket
            self._waiters[note.ticket] = note
        else:
            for ticket in note.tickets:
                del self._waiters[ticket]

    def next_deadline_ms(self) -> int | None:
        return min((waiter.until_ms for waiter in self._waiters.values()), default=None)


class CounterCodec:
    def encode(self, record: int) -> tuple[bytes, bytes | None]:
        return b"total", str(record).encode()

    def decode(self, key: bytes, value: bytes | None) -> int:
        assert key == b"total" and value is not None
        return int(value)


def _released(waiters: list[Waiter], answer: int) -> tuple[tuple[Note, ...], tuple[Release[int], ...]]:
    notes = (Released(frozenset(waiter.ticket for waiter in waiters)),) if waiters else ()
    return notes, tuple(Release(waiter.ticket, answer) for waiter in waiters)
