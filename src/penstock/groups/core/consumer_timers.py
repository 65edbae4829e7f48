"""The clocks of a KIP-848 group's members: the session, and the time in which a member has to do what it was told."""

from __future__ import annotations

from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_reconcile import MemberState
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.deadlines import Deadline, Purpose

_MEMBER_PURPOSES = (Purpose.SESSION, Purpose.REVOCATION, Purpose.JOIN_PHASE, Purpose.SYNC_PHASE)


def renew_session(group: ConsumerGroup, member: ConsumerMember, context: ConsumerContext) -> None:
    classic = member.subscription.classic
    timeout_ms = classic.session_timeout_ms if classic else context.limits.session_timeout_ms
    context.draft.arm(Deadline(group.group_id, Purpose.SESSION, member.member_id), timeout_ms)


def watch_revocation(
    group: ConsumerGroup, before: ConsumerMember | None, member: ConsumerMember, context: ConsumerContext
) -> None:
    """Each revocation has the member's rebalance timeout. One that goes on keeps the clock that it started."""
    was = (before.current.state, before.epoch) if before is not None else None
    if was == (member.current.state, member.epoch):
        return
    if member.current.state is MemberState.UNREVOKED_PARTITIONS:
        _arm(Purpose.REVOCATION, group, member, context)
    else:
        context.draft.disarm(Deadline(group.group_id, Purpose.REVOCATION, member.member_id))


def expect_join(group: ConsumerGroup, member: ConsumerMember, context: ConsumerContext) -> None:
    """A classic member was told to rejoin. Telling it again gives it no more time."""
    if not context.draft.is_armed(Deadline(group.group_id, Purpose.JOIN_PHASE, member.member_id)):
        _arm(Purpose.JOIN_PHASE, group, member, context)


def expect_sync(group: ConsumerGroup, member: ConsumerMember, context: ConsumerContext) -> None:
    """A classic member has joined and has to ask for its assignment, or it would hold partitions that nobody reads."""
    context.draft.disarm(Deadline(group.group_id, Purpose.JOIN_PHASE, member.member_id))
    _arm(Purpose.SYNC_PHASE, group, member, context)


def has_synced(group: ConsumerGroup, member: ConsumerMember, context: ConsumerContext) -> None:
    context.draft.disarm(Deadline(group.group_id, Purpose.SYNC_PHASE, member.member_id))


def stop_clocks(group_id: str, member_id: str, context: ConsumerContext) -> None:
    for purpose in _MEMBER_PURPOSES:
        context.draft.disarm(Deadline(group_id, purpose, member_id))


def start_clocks(group: ConsumerGroup, context: ConsumerContext) -> None:
    """After replay: all clocks begin now, because how long a member has been silent is not known."""
    for member in group.members.values():
        renew_session(group, member, context)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            _arm(Purpose.REVOCATION, group, member, context)


def _arm(purpose: Purpose, group: ConsumerGroup, member: ConsumerMember, context: ConsumerContext) -> None:
    deadline = Deadline(group.group_id, purpose, member.member_id)
    context.draft.arm(deadline, member.subscription.rebalance_timeout_ms)
