"""Those who wait until it is certain that a partition was led by this broker when they asked."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.core.confirmation import Confirmation
from penstock.replication.core.leadership import Leadership
from penstock.units import SECOND_MS

# Clients try again; by then somebody has left the ISR, or this broker its office.
PATIENCE_MS = 10 * SECOND_MS
NOT_LEADING = Refused(Problem.NOT_LEADER, "this broker does not lead the partition")
_NO_WORD = Refused(Problem.COORDINATOR_NOT_AVAILABLE, "followers did not confirm in time that this broker still leads")


class Round:
    def __init__(self) -> None:
        self.confirmation = Confirmation()
        self.waiting: list[tuple[int, Later[Refused | None]]] = []


class Confirmations:
    """At most two rounds, however many wait: one that is on its way, and one for all who came since."""

    def __init__(self, hurry: Callable[[], None]) -> None:
        """`hurry`: answers the followers whose fetches wait, so that they fetch again."""
        self._hurry = hurry
        # Empty as long as nobody waits, which every fetch of a follower asks.
        self.rounds: list[Round] = []

    def ask(self, leadership: Leadership | None, now_ms: int) -> Later[Refused | None]:
        """Done when it is certain that nobody else led now: what this broker knows is not the past."""
        if leadership is None:
            return Later.of(NOT_LEADING)
        if not self.rounds or (len(self.rounds) == 1 and self.rounds[0].confirmation.has_begun):
            self.rounds.append(Round())
        later: Later[Refused | None] = Later()
        self.rounds[-1].waiting.append((now_ms + PATIENCE_MS, later))
        self.look(leadership)
        if not later.done:
            self._hurry()
        return later

    def awaits(self, replica: int) -> bool:
        """Its next fetch is worth more than what it would wait for."""
        return bool(self.rounds) and self.rounds[0].confirmation.awaits(replica)

    def fetched(self, leadership: Leadership, replica: int, connection: int) -> None:
        if self.rounds:
            self.rounds[0].confirmation.fetched(replica, connection)
            self.look(leadership)

    def look(self, leadership: Leadership) -> None:
        """What is certain is said. It may have become so by a change of the ISR."""
        others, has_ended = leadership.others_in_sync, False
        while others is not None and self.rounds and self.rounds[0].confirmation.is_by_all(others):
            has_ended = True
            for _, later in self.rounds.pop(0).waiting:
                later.complete(None)
        if has_ended and self.rounds:
            self._hurry()

    def refuse(self, refused: Refused) -> None:
        rounds, self.rounds = self.rounds, []
        for each in rounds:
            for _, later in each.waiting:
                later.complete(refused)

    def expire(self, now_ms: int) -> None:
        for each in self.rounds:
            late = [later for deadline_ms, later in each.waiting if deadline_ms <= now_ms]
            each.waiting = [entry for entry in each.waiting if entry[0] > now_ms]
            for later in late:
                later.complete(_NO_WORD)
