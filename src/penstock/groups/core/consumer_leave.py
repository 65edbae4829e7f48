"""How members of a KIP-848 group go: by their last heartbeat, or because their time is up."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from penstock.groups.core.assignors import NO_PARTITIONS
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_reconcile import STATIC_LEFT_EPOCH, MemberState
from penstock.groups.core.consumer_timers import stop_clocks
from penstock.groups.core.consumer_validation import known_member
from penstock.groups.core.consumer_volatile import TopicsCompared
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.deadlines import Deadline, Purpose


def leave(work: ConsumerWork, event: ConsumerGroupHeartbeat, context: ConsumerContext) -> ConsumerHeartbeatAnswer:
    member = known_member(work.group, event.member_id, event.instance_id)
    if event.member_epoch == STATIC_LEFT_EPOCH:
        # It will be back under its instance id. Its partitions stay reserved for it until its session ends; those that
        # it was about to give up are given up now, since it reads nothing any more.
        left = structs.replace(
            member.current,
            member_epoch=STATIC_LEFT_EPOCH,
            state=MemberState.STABLE,
            pending_revocation=NO_PARTITIONS,
        )
        work.place(member.member_id, left)
        context.draft.disarm(Deadline(work.group.group_id, Purpose.REVOCATION, member.member_id))
    else:
        fence(work, (member.member_id,), context)
    return ConsumerHeartbeatAnswer(problem=None, member_id=member.member_id, member_epoch=event.member_epoch)


def fence(work: ConsumerWork, member_ids: Iterable[str], context: ConsumerContext) -> None:
    """Takes members out. What they owned is free at once; the next heartbeat of any member shares it out."""
    for member_id in member_ids:
        work.remove(member_id)
        stop_clocks(work.group.group_id, member_id, context)
    topics = context.known.topics
    work.refresh(topics, context.draft.now_ms, changed=True)
    if topics is not None:
        context.draft.note(TopicsCompared(work.group.group_id, topics))


def deadlines_passed(work: ConsumerWork, due: Iterable[Deadline], context: ConsumerContext) -> None:
    """All that fell due for this group at once: they cost one group epoch together."""
    late: dict[str, None] = {}
    for deadline in due:
        context.draft.disarm(deadline)
        member = work.group.members.get(deadline.member_id)
        if member is None:
            continue
        is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS
        if deadline.purpose is not Purpose.REVOCATION or is_revoking:
            late[deadline.member_id] = None
    if late:
        fence(work, late, context)
