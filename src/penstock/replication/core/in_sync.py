"""The ISR of one partition between its leader and the controller: what is recorded, what may be, what is asked for.

Only the store knows the ISR, and a leader hears of it late. It stays right by counting everyone who may be in it: the
recorded members, and every addition that it asked for since. A proposal names the version (partition epoch) that it is
based on, so it can be taken only while that is the newest: what a leader asked for at one version is settled, either
way, by a state of a later one, and by nothing else.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from penstock.coordination.paths import NO_EPOCH, PartitionState
from penstock.errors import Problem

# Between a proposal without an answer, or one that was declined, and the next.
RETRY_MS = 500
# After one that was declined because of a state that is not known here yet. That comes by itself; should it not, the
# controller was behind.
STALE_RETRY_MS = 5_000
# All others, such as NOT_CONTROLLER, say nothing of what another controller did with it.
_ENDED = {
    Problem.FENCED_LEADER_EPOCH,
    Problem.STALE_BROKER_EPOCH,
    Problem.NEW_LEADER_ELECTED,
    Problem.INVALID_REQUEST,
    Problem.UNKNOWN_TOPIC_ID,
    Problem.UNKNOWN_TOPIC_OR_PARTITION,
}


class Member(NamedTuple):
    """`broker_epoch` NO_EPOCH: a recorded member. What its later lives may keep is between them and the controller."""

    replica: int
    broker_epoch: int = NO_EPOCH


class Proposal(NamedTuple):
    """AlterPartition. The controller takes it as a compare-and-swap of `version`, which it raises also when the ISR is

    the same as before: after that no copy of an earlier proposal can be taken. It declines an addition whose broker
    epoch is not the admitted one (KIP-903).
    """

    leader_epoch: int
    version: int
    isr: tuple[Member, ...]
    # Tells answers apart: of what was sent twice only the last one's counts.
    attempt: int
    # Who had everything once and has shown that it has not any more: it must not be eligible for having been a member.
    lost: tuple[int, ...] = ()


class Altered(NamedTuple):
    """The answer to a proposal: this is recorded now."""

    state: PartitionState
    version: int


class Declined(Enum):
    """The answer to a proposal that was not taken, and could not be."""

    # Someone else changed the state, or an earlier attempt did.
    STALE_VERSION = auto()
    # The version is right, but a member is dead, draining, or a later life of its broker has registered.
    INELIGIBLE_REPLICA = auto()
    # The leader is not the leader any more, or its own broker epoch is over.
    FENCED = auto()


class Unanswered(Enum):
    """No answer came: the proposal may have been taken, may be taken later, or never."""

    UNANSWERED = auto()


Answer = Altered | Declined | Unanswered


class InSync:
    """At most one proposal is on its way. `recorded` and `maximal` include the leader."""

    def __init__(self, state: PartitionState, version: int) -> None:
        self.state = state
        self.version = version
        self.recorded = frozenset(state.isr)
        # The most that the ISR can be: recorded members, and additions that may have been taken.
        self.maximal = self.recorded
        # Additions of proposals that are not on their way any more, of which a copy may still be taken.
        self.doubtful: frozenset[int] = frozenset()
        # The controller knows a later state.
        self.is_stale = False
        self._pending: Proposal | None = None
        self._attempts = 0
        self._not_before_ms = 0

    def may_propose(self, now_ms: int) -> bool:
        return self._pending is None and now_ms >= self._not_before_ms

    def propose(self, members: tuple[Member, ...], lost: tuple[int, ...] = ()) -> Proposal:
        """Additions count from now on; removals not before the controller has recorded them."""
        self._attempts += 1
        self._pending = Proposal(self.state.leader_epoch, self.version, members, self._attempts, lost)
        self.maximal |= {member.replica for member in members}
        return self._pending

    def settle(self, proposal: Proposal, answer: Declined | Unanswered, now_ms: int) -> bool:
        """False if the answer is not to the proposal that is on its way."""
        if proposal != self._pending:
            return False
        self._pending = None
        # Also when it was declined: a copy of it, or of an attempt before it, may still be on its way.
        self.doubtful = self.maximal - self.recorded
        self.is_stale = answer in (Declined.STALE_VERSION, Declined.FENCED)
        self._not_before_ms = now_ms + (STALE_RETRY_MS if self.is_stale else RETRY_MS)
        return True

    def adopt(self, state: PartitionState, version: int) -> None:
        """`version` is later than ours: whatever was asked for is in there, or never will be."""
        self.state = state
        self.version = version
        self.recorded = self.maximal = frozenset(state.isr)
        self.doubtful = frozenset()
        self.is_stale = False
        self._pending = None
        self._not_before_ms = 0


def answer_of(problem: Problem | None) -> Declined | Unanswered:
    """What an error of AlterPartition means for the proposal; None: no answer came."""
    if problem is Problem.INELIGIBLE_REPLICA:
        return Declined.INELIGIBLE_REPLICA
    if problem is Problem.INVALID_UPDATE_VERSION:
        return Declined.STALE_VERSION
    if problem in _ENDED:
        return Declined.FENCED
    return Unanswered.UNANSWERED
