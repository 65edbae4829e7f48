"""What the groups' machine knows and may forget."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_volatile import ConsumerNote, ConsumerVolatile, TopicsCompared, TopicsLearned
from penstock.groups.core.deadlines import Deadline, Deadlines
from penstock.groups.core.producer_connections import ProducerConnections, SentOn
from penstock.groups.core.transaction_ends import TransactionEnds, TransactionOver
from penstock.replication.core.machine import Ticket


@dataclass(frozen=True, slots=True)
class TicketTaken:
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Armed:
    deadline: Deadline
    when_ms: int


@dataclass(frozen=True, slots=True)
class Disarmed:
    deadline: Deadline


@dataclass(frozen=True, slots=True)
class ClocksStarted:
    """After a replay: sessions run again, and expiry is on its way."""


@dataclass(frozen=True, slots=True)
class ExpiryPaused:
    """Groups whose offsets the running expiry round has yet to look at; empty: the round is over."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassicRemembered:
    """A classic group as it now is, between two of its records."""

    group: ClassicGroup


@dataclass(frozen=True, slots=True)
class CommittedOn:
    """The newest connection on which members of the group committed."""

    group_id: str
    connection: int


Note = (
    TicketTaken
    | Armed
    | Disarmed
    | ClocksStarted
    | ExpiryPaused
    | ClassicRemembered
    | CommittedOn
    | TransactionOver
    | SentOn
    | ConsumerNote
)


class Volatile:
    """Safe to lose, all of it, at any moment:

    - parked JoinGroup and SyncGroup answers: their clients lose the connection too, or are told that this is no longer
      the coordinator, and ask again;
    - members that joined since the last generation, or left: the last generation is what the log restores; joiners
      ask again, leavers' sessions run out;
    - member ids handed out but not used yet: the client gets UNKNOWN_MEMBER_ID and asks for another;
    - session deadlines: they start afresh, so a member is at worst missed one session timeout later;
    - how far an expiry round has come: the next one starts from the beginning;
    - on which connection a group or a producer committed last: the next machine is younger than that;
    - which transactions have ended: a commit that was verified before this machine began has no guard of it, and one
      that is verified since is of a transaction that was under way then.
    """

    def __init__(self, began: int) -> None:
        self.classic: dict[str, ClassicGroup] = {}
        self.consumer = ConsumerVolatile()
        self.deadlines = Deadlines()
        self.next_ticket: Ticket = 0
        self.expiry_queue: tuple[str, ...] = ()
        self.clocks_started = False
        self.committed_on: dict[str, int] = {}
        self.transaction_ends = TransactionEnds(began)
        self.producer_connections = ProducerConnections(began)

    def remember(self, note: Note) -> None:
        match note:
            case Armed(deadline, when_ms):
                self.deadlines.arm(deadline, when_ms)
            case Disarmed(deadline):
                self.deadlines.disarm(deadline)
            case TicketTaken(ticket):
                self.next_ticket = ticket + 1
            case ClassicRemembered(group):
                self._remember_classic(group)
            case ClocksStarted():
                self.clocks_started = True
            case ExpiryPaused(group_ids):
                self.expiry_queue = group_ids
            case CommittedOn(group_id, connection):
                self.committed_on[group_id] = connection
            case TransactionOver():
                self.transaction_ends.remember(note)
            case SentOn():
                self.producer_connections.remember(note)
            case TopicsLearned() | TopicsCompared():
                self.consumer.remember(note)

    def _remember_classic(self, group: ClassicGroup) -> None:
        if group.is_vacant:
            # The stored form, if any, says it all; and no request may leave something behind for ever.
            self.classic.pop(group.group_id, None)
        else:
            self.classic[group.group_id] = group

    def forget_group(self, group_id: str) -> None:
        """Its records changed or ended: what was derived from the old ones no longer holds."""
        self.classic.pop(group_id, None)
        self.consumer.forget_group(group_id)
