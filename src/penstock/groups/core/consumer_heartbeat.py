"""ConsumerGroupHeartbeat: the one request by which KIP-848 members join, report, learn their assignment, and leave.

Three steps, each of which writes records only if something changed: the member's subscription (a change starts a new
group epoch), the target assignment for a new group epoch, and this member's step towards its target.
"""

from __future__ import annotations

from msgspec import structs

from penstock.errors import PenstockError, Problem
from penstock.groups.core.assignors import NO_PARTITIONS, Partitions
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_reconcile import (
    NOT_JOINED_EPOCH,
    STATIC_LEFT_EPOCH,
    CurrentAssignment,
    Goal,
    reconcile,
    reconcile_joined,
    start_over,
)
from penstock.groups.core.consumer_records import SubscriptionValue
from penstock.groups.core.consumer_state import ConsumerMember
from penstock.groups.core.consumer_target import has_new_topics, keep_target_fresh
from penstock.groups.core.consumer_timers import renew_session, watch_revocation
from penstock.groups.core.consumer_validation import check_epoch, check_room, known_member
from penstock.groups.core.consumer_work import ConsumerWork


def heartbeat(work: ConsumerWork, event: ConsumerGroupHeartbeat, context: ConsumerContext) -> ConsumerHeartbeatAnswer:
    """A heartbeat that is no leave (epoch 0 or more). `check_request` has passed."""
    member_id = event.member_id or event.fresh_id
    had_left = _had_left(work.group.members.get(member_id), event)
    before = _sender(work, event, member_id)
    _update_subscription(work, event, member_id, before)
    after = work.group.members[member_id].subscription
    is_back = event.member_epoch == NOT_JOINED_EPOCH and before is not None and not before.current.is_new
    is_changed = before is None or is_back or had_left or has_new_topics(before.subscription, after)
    keep_target_fresh(work, context, changed=is_changed)
    current, goal = work.group.members[member_id].current, work.goal_of(member_id, context.topics)
    work.place(member_id, _next_step(event, current, goal))
    member = work.group.members[member_id]
    renew_session(work.group, member, context)
    watch_revocation(work.group, before, member, context)
    return ConsumerHeartbeatAnswer(
        problem=None,
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=context.limits.heartbeat_interval_ms,
        assignment=_assignment_for(event, before, member),
    )


def _sender(work: ConsumerWork, event: ConsumerGroupHeartbeat, member_id: str) -> ConsumerMember | None:
    """The member as it was, None if it is new. A static member that comes back is put in the old one's place."""
    group = work.group
    if event.member_epoch != NOT_JOINED_EPOCH:
        sender = known_member(group, member_id, event.instance_id)
        check_epoch(sender, event.member_epoch, event.owned)
        return sender
    check_room(group, event.member_id, event.instance_id, work.limits)
    member = group.members.get(member_id)
    holder = group.members.get(group.static_members.get(event.instance_id or "", ""))
    if event.instance_id is None or holder is None or holder is member:
        return _joining(member, work)
    if member is not None:
        text = f"member id {member_id} is in use: it cannot also be instance {event.instance_id}"
        raise PenstockError(Problem.INVALID_REQUEST, text)
    if not holder.is_classic and holder.epoch != STATIC_LEFT_EPOCH:
        text = f"instance {event.instance_id} is still member {holder.member_id}: it has to leave, or expire, first"
        raise PenstockError(Problem.UNRELEASED_INSTANCE_ID, text)
    return work.replace(holder, member_id)


def _had_left(member: ConsumerMember | None, event: ConsumerGroupHeartbeat) -> bool:
    """A static member that comes back under the id it had. It needs another epoch than it had then, or heartbeats from

    before it left would speak for it.
    """
    is_away = member is not None and member.epoch == STATIC_LEFT_EPOCH
    return is_away and event.member_epoch == NOT_JOINED_EPOCH


def _next_step(event: ConsumerGroupHeartbeat, current: CurrentAssignment, goal: Goal) -> CurrentAssignment:
    """Only who speaks at the member's newest epoch has heard all that it was told, and is moved on."""
    if event.member_epoch == NOT_JOINED_EPOCH:
        if current.member_epoch == NOT_JOINED_EPOCH:
            return reconcile_joined(current, goal, NO_PARTITIONS)
        return current if current.is_new else start_over(current, goal)
    current = current.listed(event.owned, event.member_epoch)
    return reconcile(current, goal, event.owned) if event.member_epoch == current.member_epoch else current


def _joining(member: ConsumerMember | None, work: ConsumerWork) -> ConsumerMember | None:
    """A known member joins again when it was fenced or lost the answer to its first join."""
    if member is not None and member.epoch == STATIC_LEFT_EPOCH:
        return work.replace(member, member.member_id)
    return member


def _update_subscription(
    work: ConsumerWork, event: ConsumerGroupHeartbeat, member_id: str, before: ConsumerMember | None
) -> None:
    known = before.subscription if before else SubscriptionValue()
    names = known.topic_names if event.topic_names is None else tuple(sorted(set(event.topic_names)))
    timeout_ms = known.rebalance_timeout_ms if event.rebalance_timeout_ms < 0 else event.rebalance_timeout_ms
    updated = structs.replace(
        known,
        instance_id=event.instance_id or known.instance_id,
        rack_id=event.rack_id or known.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=timeout_ms,
        topic_names=names,
        topic_regex=known.topic_regex if event.topic_regex is None else event.topic_regex,
        server_assignor=event.server_assignor or known.server_assignor,
        classic=None,
    )
    if before is None or updated != known:
        work.subscribe(member_id, updated)


def _assignment_for(
    event: ConsumerGroupHeartbeat, before: ConsumerMember | None, after: ConsumerMember
) -> Partitions | None:
    """Told when asked for (a full heartbeat), when it changed, and as long as the member may not have heard of it."""
    is_asked = event.is_full or event.member_epoch == NOT_JOINED_EPOCH
    if is_asked or before is None or before.current.assigned != after.current.assigned:
        return after.current.assigned
    is_unheard = event.member_epoch != before.epoch or bool(after.current.unlisted)
    return after.current.assigned if is_unheard else None
