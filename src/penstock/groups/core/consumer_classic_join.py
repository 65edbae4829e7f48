"""JoinGroup in a KIP-848 group: a classic member comes in, or comes again."""

from __future__ import annotations

from penstock.errors import PenstockError, Problem
from penstock.groups.core.answers import JoinAnswer
from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_classic import joined
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_embedded import EmbeddedSubscription, read_subscription
from penstock.groups.core.consumer_reconcile import reconcile_joined
from penstock.groups.core.consumer_records import SubscriptionValue
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.consumer_target import has_new_topics, keep_target_fresh
from penstock.groups.core.consumer_timers import expect_sync, renew_session
from penstock.groups.core.consumer_upgrade import classic_subscription, named_partitions
from penstock.groups.core.consumer_validation import check_room, known_member
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.events import JoinGroup
from penstock.groups.core.group import CONSUMER_PROTOCOL_TYPE
from penstock.groups.core.records import StoredMember


def join(work: ConsumerWork, event: JoinGroup, context: ConsumerContext) -> JoinAnswer:
    embedded = _check_protocols(work.group, event)
    check_room(work.group, event.member_id, event.group_instance_id, context.limits)
    if not event.member_id and event.group_instance_id is None and event.needs_known_member_id:
        return JoinAnswer(Problem.MEMBER_ID_REQUIRED, f"{event.client_id}-{event.fresh_id}")
    owned = named_partitions(embedded.owned, context.topics)
    member_id = event.member_id or f"{event.group_instance_id or event.client_id}-{event.fresh_id}"
    before = _sender(work, event, member_id, owned)
    after = _subscription(event, member_id, embedded)
    if before is None or before.subscription != after:
        work.subscribe(member_id, after)
    changed = before is None or has_new_topics(before.subscription, after)
    keep_target_fresh(work, context, changed=changed)
    current, goal = work.group.members[member_id].current, work.goal_of(member_id, context.topics)
    work.place(member_id, reconcile_joined(current, goal, owned, will_list=False))
    member = work.group.members[member_id]
    renew_session(work.group, member, context)
    expect_sync(work.group, member, context)
    return joined(member)


def _check_protocols(group: ConsumerGroup, event: JoinGroup) -> EmbeddedSubscription:
    """It has to be a consumer, and to share a protocol with all other classic members: the group may turn classic."""
    shared = {name for name, _ in event.protocols}
    for member in group.members.values():
        if member.subscription.classic is not None and member.member_id != event.member_id:
            shared &= {name for name, _ in member.subscription.classic.protocols}
    embedded = read_subscription(event.protocols[0][1]) if event.protocols else None
    if event.protocol_type != CONSUMER_PROTOCOL_TYPE or not shared or embedded is None:
        text = f"group {group.group_id} takes consumers that share an assignor with its members"
        raise PenstockError(Problem.INCONSISTENT_GROUP_PROTOCOL, text)
    return embedded


def _sender(work: ConsumerWork, event: JoinGroup, member_id: str, owned: Partitions) -> ConsumerMember | None:
    """The member as it was, None if it is new."""
    group = work.group
    if event.group_instance_id is not None:
        if event.member_id:
            return _classic_or_unknown(known_member(group, member_id, event.group_instance_id))
        holder = group.members.get(group.static_members.get(event.group_instance_id, ""))
        return work.replace(holder, member_id) if holder is not None else None
    member = group.members.get(member_id)
    if member is None and owned:
        # It was fenced without noticing, and still reads what others may have by now.
        raise PenstockError(Problem.UNKNOWN_MEMBER, f"{member_id} is no longer a member of group {group.group_id}")
    return None if member is None else _classic_or_unknown(member)


def _classic_or_unknown(member: ConsumerMember) -> ConsumerMember:
    if not member.is_classic:
        raise PenstockError(Problem.UNKNOWN_MEMBER, f"member {member.member_id} does not use the classic protocol")
    return member


def _subscription(event: JoinGroup, member_id: str, embedded: EmbeddedSubscription) -> SubscriptionValue:
    timeout_ms = event.rebalance_timeout_ms if event.rebalance_timeout_ms >= 0 else event.session_timeout_ms
    member = StoredMember(
        member_id=member_id,
        group_instance_id=event.group_instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms,
        protocols=event.protocols,
    )
    return classic_subscription(member, embedded)
