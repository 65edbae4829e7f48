"""The clocks of KIP-848 members: the session, and the time that a member has to give partitions up."""

from __future__ import annotations

from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_reconcile import MemberState
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.deadlines import Deadline, Purpose

MEMBER_PURPOSES = (Purpose.SESSION, Purpose.REVOCATION, Purpose.JOIN_PHASE, Purpose.SYNC_PHASE)


def renew_session(member: ConsumerMember, work: ConsumerWork, context: ConsumerContext) -> None:
    _start_session(work.group, member, context)


def watch_revocation(
    member: ConsumerMember, before: ConsumerMember | None, work: ConsumerWork, context: ConsumerContext
) -> None:
    """Each revocation has the member's rebalance timeout. One that goes on keeps the clock that it started."""
    if before is not None and before.current is member.current:
        return
    deadline = Deadline(work.group.group_id, Purpose.REVOCATION, member.member_id)
    if member.current.state is MemberState.UNREVOKED_PARTITIONS:
        context.draft.arm(deadline, member.subscription.rebalance_timeout_ms)
    else:
        context.draft.disarm(deadline)


def stop_clocks(group: ConsumerGroup, member_id: str, context: ConsumerContext) -> None:
    for purpose in MEMBER_PURPOSES:
        context.draft.disarm(Deadline(group.group_id, purpose, member_id))


def start_clocks(group: ConsumerGroup, context: ConsumerContext) -> None:
    """After replay: all clocks begin now, because how long a member has been silent is not known."""
    for member in group.members.values():
        _start_session(group, member, context)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            deadline = Deadline(group.group_id, Purpose.REVOCATION, member.member_id)
            context.draft.arm(deadline, member.subscription.rebalance_timeout_ms)


def _start_session(group: ConsumerGroup, member: ConsumerMember, context: ConsumerContext) -> None:
    classic = member.subscription.classic
    timeout_ms = classic.session_timeout_ms if classic else context.limits.session_timeout_ms
    context.draft.arm(Deadline(group.group_id, Purpose.SESSION, member.member_id), timeout_ms)
