"""How one member of a KIP-848 group moves from what it has to what the target assignment wants it to have.

A partition changes hands only through here: first the old owner is told to give it up, then its heartbeat no longer
lists it, and only then does the new owner get it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from uuid import UUID

import msgspec

from penstock.groups.core.assignors import NO_PARTITIONS, Partitions

NOT_JOINED_EPOCH = 0
STATIC_LEFT_EPOCH = -2


class MemberState(Enum):
    """STABLE: at the target. UNREVOKED_PARTITIONS: has yet to give up what others wait for. UNRELEASED_PARTITIONS:

    gave up what it must and waits for partitions that others have yet to give up.
    """

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    UNRELEASED_PARTITIONS = 3


class CurrentAssignment(msgspec.Struct, frozen=True):
    """What a member was told. It owns `assigned` and, until its heartbeat says otherwise, `pending_revocation`."""

    member_epoch: int = NOT_JOINED_EPOCH
    previous_member_epoch: int = NOT_JOINED_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = msgspec.field(default_factory=dict)
    pending_revocation: Partitions = msgspec.field(default_factory=dict)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


IsFree = Callable[[UUID, int], bool]
"""Whether no *other* member owns this partition."""


def reconcile(
    current: CurrentAssignment,
    *,
    assignment_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
) -> CurrentAssignment:
    """The member's next step, or `current` itself when it has to wait.

    `owned` is what the member's heartbeat lists; None, when it lists nothing because nothing changed, proves no
    revocation.
    """
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(owned, current.pending_revocation):
            return current
        # One epoch on, so that the next revocation, if there is one, gets a rebalance timeout of its own.
        return _next_step(current, current.member_epoch + 1, assignment_epoch, target, owned, is_free)
    if current.is_reconciled_to(assignment_epoch):
        return current
    return _next_step(current, current.member_epoch, assignment_epoch, target, owned, is_free)


def _next_step(
    current: CurrentAssignment,
    member_epoch: int,
    assignment_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
) -> CurrentAssignment:
    kept = intersection(current.assigned, target)
    revoked = difference(current.assigned, kept)
    if revoked and _still_owns(owned, revoked):
        return _moved(current, member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    wanted = difference(target, kept)
    free = {topic_id: frozenset(i for i in indexes if is_free(topic_id, i)) for topic_id, indexes in wanted.items()}
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
    return _moved(current, assignment_epoch, state, union(kept, free), NO_PARTITIONS)


def _moved(
    current: CurrentAssignment, member_epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
) -> CurrentAssignment:
    """The epoch before this step stays good for one more heartbeat: the answer may get lost. Older ones do not, or a

    heartbeat that was long under way could pass for the proof of a revocation.
    """
    unmoved = (current.member_epoch, current.state, current.assigned, current.pending_revocation)
    if unmoved == (member_epoch, state, assigned, revoking):
        return current
    return CurrentAssignment(member_epoch, current.member_epoch, state, assigned, revoking)


def _still_owns(owned: Partitions | None, revoked: Partitions) -> bool:
    return owned is None or bool(intersection(owned, revoked))


def intersection(left: Partitions, right: Partitions) -> Partitions:
    shared = {topic_id: indexes & right[topic_id] for topic_id, indexes in left.items() if topic_id in right}
    return {topic_id: indexes for topic_id, indexes in shared.items() if indexes}


def difference(left: Partitions, right: Partitions) -> Partitions:
    rest = {topic_id: indexes - right.get(topic_id, frozenset()) for topic_id, indexes in left.items()}
    return {topic_id: indexes for topic_id, indexes in rest.items() if indexes}


def union(left: Partitions, right: Partitions) -> Partitions:
    both = dict(left)
    for topic_id, indexes in right.items():
        if indexes:
            both[topic_id] = both.get(topic_id, frozenset()) | indexes
    return both


def is_subset(left: Partitions, right: Partitions) -> bool:
    return all(indexes <= right.get(topic_id, frozenset()) for topic_id, indexes in left.items())
