"""A decision in the making."""

from __future__ import annotations

from penstock.groups.core.answers import GroupAnswer
from penstock.groups.core.deadlines import Deadline
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.records import Record
from penstock.groups.core.volatile import Armed, Disarmed, Note, TicketTaken, Volatile
from penstock.replication.core.machine import Answered, Decision, Parked, Release, Ticket

GroupDecision = Decision[Record, GroupAnswer, Note]


class Draft:
    """Collects what one event leads to. Functions that decide write here and into their own copy of a group, never

    into the machine.
    """

    def __init__(self, now_ms: int, limits: GroupLimits, volatile: Volatile) -> None:
        self.now_ms = now_ms
        self.limits = limits
        self._volatile = volatile
        self._moved: set[Deadline] = set()
        self._records: list[Record] = []
        self._notes: list[Note] = []
        self._releases: list[Release[GroupAnswer]] = []

    def write(self, *records: Record) -> None:
        self._records += records

    def note(self, note: Note) -> None:
        self._notes.append(note)

    def arm(self, deadline: Deadline, after_ms: int) -> None:
        self._moved.add(deadline)
        self._notes.append(Armed(deadline, self.now_ms + after_ms))

    def disarm(self, deadline: Deadline) -> None:
        self._moved.add(deadline)
        self._notes.append(Disarmed(deadline))

    def has_moved(self, deadline: Deadline) -> bool:
        """Whether this decision itself armed or disarmed it: then it is no longer due, even if it was."""
        return deadline in self._moved

    def is_armed(self, deadline: Deadline) -> bool:
        """Whether it was armed before this decision."""
        return self._volatile.deadlines.get(deadline) is not None

    def park(self) -> Parked:
        """A ticket for this event's own answer; at most one per event."""
        ticket = self._volatile.next_ticket
        self._notes.append(TicketTaken(ticket))
        return Parked(ticket)

    def release(self, ticket: Ticket | None, answer: GroupAnswer) -> None:
        if ticket is not None:
            self._releases.append(Release(ticket, answer))

    def discard(self) -> None:
        """Nothing of what was collected shall happen: the event is refused."""
        self._records, self._notes, self._releases = [], [], []
        self._moved.clear()

    def decision(self, answer: GroupAnswer | Parked) -> GroupDecision:
        return Decision(
            answer=answer if isinstance(answer, Parked) else Answered(answer),
            records=tuple(self._records),
            notes=tuple(self._notes),
            releases=tuple(self._releases),
        )
