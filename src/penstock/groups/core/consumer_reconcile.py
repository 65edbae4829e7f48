"""How one member of a KIP-848 group moves from what it has to what the target assignment wants it to have.

A partition changes hands only through here: the old owner has listed it, is then told at a new epoch to give it up,
lists at that epoch what it owns without it, and only then does the new owner get it. docs/adr/0004 says why.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from penstock.groups.core.assignors import NO_PARTITIONS, Partitions
from penstock.groups.core.partition_sets import difference, intersection, union

NOT_JOINED_EPOCH = 0
STATIC_LEFT_EPOCH = -2
GROUP_EPOCH_STEP = 2
"""One epoch is left free between two of the group's, for members that are told to give up partitions: they leave the

epoch of the old target when they are told, and get that of the new one when they have done it.
"""


class MemberState(Enum):
    """STABLE: at the target. UNREVOKED_PARTITIONS: has yet to give up what others wait for; while nothing is pending it

    has yet to list it first. UNRELEASED_PARTITIONS: gave up what it must and waits for partitions that others have yet
    to give up.
    """

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    UNRELEASED_PARTITIONS = 3


class CurrentAssignment(Struct, frozen=True):
    """What a member was told. It owns `assigned` and, until its heartbeat says otherwise, `pending_revocation`.

    `unlisted` are those of `assigned` that no heartbeat has listed since the member was told of them: it may not know
    of them, or be about to begin with them. `told_epoch` is the member epoch at which it was last told of more.
    """

    member_epoch: int = NOT_JOINED_EPOCH
    previous_member_epoch: int = NOT_JOINED_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = msgspec.field(default_factory=dict)
    pending_revocation: Partitions = msgspec.field(default_factory=dict)
    unlisted: Partitions = msgspec.field(default_factory=dict)
    told_epoch: int = NOT_JOINED_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def is_one_behind(self, epoch: int) -> bool:
        return epoch == self.previous_member_epoch and NOT_JOINED_EPOCH < epoch < self.member_epoch

    @property
    def is_new(self) -> bool:
        """It joined, and no heartbeat has moved it since: the answer to its join may not have reached it."""
        return self.previous_member_epoch == NOT_JOINED_EPOCH and self.unlisted == self.assigned

    def listed(self, owned: Partitions | None, epoch: int) -> CurrentAssignment:
        """After a heartbeat that was sent at this epoch, the member's own or the one before."""
        if owned is None or not self.unlisted or epoch < self.told_epoch:
            return self
        unlisted = difference(self.unlisted, owned)
        return self if unlisted == self.unlisted else structs.replace(self, unlisted=unlisted)


IsFree = Callable[[UUID, int], bool]
"""Whether no *other* member owns this partition."""


class Goal(Struct, frozen=True):
    """Where a member is to get to."""

    epoch: int
    target: Partitions
    is_free: IsFree
    exists: Callable[[UUID], bool] = lambda _: True
    """Whether there is still a topic with this id."""

    def reached_from(self, kept: Partitions) -> tuple[MemberState, Partitions]:
        wanted = difference(self.target, kept)
        free = {id_: frozenset(i for i in indexes if self.is_free(id_, i)) for id_, indexes in wanted.items()}
        state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
        return state, union(kept, free)


def reconcile(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    """The member's next step, or `current` itself when it has to wait. For heartbeats at the member's own epoch.

    `owned` is what the heartbeat lists; None, when it lists nothing because nothing changed, proves no revocation.
    """
    if not current.pending_revocation:
        return current if current.is_reconciled_to(goal.epoch) else _next_step(current, current.member_epoch, goal)
    # What it had before it joined anew it has given up by joining; this heartbeat shows that it really did join.
    has_joined_anew = current.previous_member_epoch == NOT_JOINED_EPOCH
    if not has_joined_anew and _still_owns(owned, current.pending_revocation):
        return current
    # What is given up ends with the epoch: a commit that was under way is then refused.
    return _next_step(current, current.member_epoch + 1, goal)


def _next_step(current: CurrentAssignment, member_epoch: int, goal: Goal) -> CurrentAssignment:
    # A member cannot list what it cannot find the name of; and nobody waits for partitions of a topic that is gone.
    gone = {id_: indexes for id_, indexes in current.unlisted.items() if not goal.exists(id_)}
    held = difference(current.assigned, gone)
    kept = intersection(held, goal.target)
    revoked = difference(held, kept)
    if intersection(revoked, current.unlisted):
        return _moved(current, member_epoch, MemberState.UNREVOKED_PARTITIONS, held)
    if revoked:
        return _moved(current, current.member_epoch + 1, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    return _moved(current, goal.epoch, *goal.reached_from(kept))


def reconcile_joined(
    current: CurrentAssignment, goal: Goal, owned: Partitions, *, will_list: bool = True
) -> CurrentAssignment:
    """The step of a member that joins and has nothing but what it says. `will_list`: its heartbeats will say more.

    Members of the classic protocol join over and over, so what they say then is all they ever have to say.
    """
    if _still_owns(owned, current.pending_revocation) or current.is_reconciled_to(goal.epoch):
        return current
    kept = intersection(current.assigned, goal.target)
    revoked = difference(current.assigned, kept)
    if _still_owns(owned, revoked):
        moved = _moved(current, current.member_epoch + 1, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    else:
        moved = _moved(current, goal.epoch, *goal.reached_from(kept))
    return moved if will_list else structs.replace(moved, unlisted=NO_PARTITIONS)


def start_over(current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    """The step of a known member that was at work and joins. By joining it says that it has nothing; but the request

    may be an old one that was long under way. So nothing of what it had is free before it speaks at the epoch that it
    is told now, and whoever speaks at the epochs from before is fenced.
    """
    held = union(current.assigned, current.pending_revocation)
    kept = intersection(held, goal.target)
    given_up = difference(held, kept)
    if given_up:
        epoch, state, assigned = current.member_epoch + 1, MemberState.UNREVOKED_PARTITIONS, kept
    else:
        epoch, (state, assigned) = goal.epoch, goal.reached_from(kept)
    return CurrentAssignment(epoch, NOT_JOINED_EPOCH, state, assigned, given_up, assigned, epoch)


def _moved(
    current: CurrentAssignment,
    member_epoch: int,
    state: MemberState,
    assigned: Partitions,
    revoking: Partitions = NO_PARTITIONS,
) -> CurrentAssignment:
    """The epoch before this step stays good for one more heartbeat: the answer may get lost. It is the epoch at which

    the member has just spoken, so older ones cannot come but from heartbeats that were long under way.
    """
    unmoved = (current.member_epoch, current.state, current.assigned, current.pending_revocation)
    if unmoved == (member_epoch, state, assigned, revoking):
        return current
    more = difference(assigned, current.assigned)
    return CurrentAssignment(
        member_epoch=member_epoch,
        previous_member_epoch=current.member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=revoking,
        unlisted=union(intersection(current.unlisted, assigned), more),
        told_epoch=member_epoch if more else current.told_epoch,
    )


def _still_owns(owned: Partitions | None, revoked: Partitions) -> bool:
    return bool(revoked) and (owned is None or bool(intersection(owned, revoked)))
