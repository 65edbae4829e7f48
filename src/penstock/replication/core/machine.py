"""What a durable state machine is, and what it hands to its runner (replication/machine.py).

The state of a machine has two parts. The *durable* part is a function of the records in the machine's log and nothing
else; only `apply` changes it. The *volatile* part may be forgotten at any moment (parked answers, session deadlines);
only `remember` changes it, and each machine says in its own words why losing it is safe.

The runner's order, for every event:

1. `decision = machine.decide(event, now_ms)`: reads both parts, changes neither.
2. Append `decision.records` to the log as one batch. If that fails, nothing has happened yet: the machine is dropped,
   everything parked with it is answered "not coordinator", and the next machine replays the log.
3. `apply` each record, then `remember` each note.
4. When the newest offset that the decision could have seen is committed: deliver `answer` if it is `Answered`, then
   `releases` in order. A decision may release the very ticket that it parks. Last, if this machine serves still,
   whoever runs it gets `orders`.

An order is what a machine wants done elsewhere because of what it decided. It may be lost with the machine, so the
state must show what is still to do: after a replay the shell asks for that, when it is told that the machine is ready.

After each event, and once after replay, the runner arms one timer for `next_deadline_ms()` and submits a `Tick` when it
passes. A deadline in the past (also 0, the usual one after replay, when a machine has to start its clocks) means: now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Event_contra = TypeVar("Event_contra", contravariant=True)
Record = TypeVar("Record")
Answer = TypeVar("Answer")
Note = TypeVar("Note")

Ticket = int
"""Names a parked answer; unique within the life of one machine object."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Submitted by the runner when a deadline has passed; its answer is nobody's."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[Answer]):
    answer: Answer


@dataclass(frozen=True, slots=True)
class Parked:
    """The answer comes with a later decision's `releases`, under this ticket. Machines bound that wait by a deadline

    of their own, so that a ticket is always released in the end.
    """

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Release(Generic[Answer]):
    ticket: Ticket
    answer: Answer


@dataclass(frozen=True, slots=True)
class Decision(Generic[Record, Answer, Note]):
    """What shall happen because of one event."""

    answer: Answered[Answer] | Parked
    records: tuple[Record, ...] = ()
    notes: tuple[Note, ...] = ()
    releases: tuple[Release[Answer], ...] = ()
    # Of the machine's own kind: only its shell looks into them.
    orders: tuple[object, ...] = ()


class Machine(Protocol[Event_contra, Record, Answer, Note]):
    """A durable state machine. See the module's docstring for the order in which a runner calls these."""

    def decide(self, event: Event_contra, now_ms: int) -> Decision[Record, Answer, Note]:
        """Changes nothing, so an append that fails needs no undoing."""

    def apply(self, record: Record) -> None:
        """The only change of the durable part, live and on replay. Takes any record that any earlier version wrote."""

    def remember(self, note: Note) -> None:
        """The only change of the volatile part that a decision makes. Never called on replay."""

    def next_deadline_ms(self) -> int | None:
        """When the machine next wants a `Tick`; None: not before another event."""
