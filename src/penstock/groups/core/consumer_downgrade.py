"""A KIP-848 group becomes a classic group again, because its last KIP-848 member has left classic ones behind."""

from __future__ import annotations

from penstock.groups.core.classic_protocols import select_protocol
from penstock.groups.core.classic_rebalance import prepare_rebalance, renew_session
from penstock.groups.core.classic_state import ClassicGroup, ClassicState
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_embedded import read_subscription, write_assignment
from penstock.groups.core.consumer_records import ClassicProtocols
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.consumer_timers import stop_clocks
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.group import CONSUMER_PROTOCOL_TYPE
from penstock.groups.core.records import StoredMember


def can_downgrade(group: ConsumerGroup, context: ConsumerContext) -> bool:
    """Where it cannot, classic members go on in the KIP-848 group, which serves them as before.

    A classic group is one record with all that its members sent. Here each has records of its own, so that together
    they may be more than a batch can hold; and a member that times out would have it tried for ever.
    """
    return (
        all(member.is_classic for member in group.members.values())
        and context.limits.migration_policy.allows_downgrade
        and len(group.members) <= context.draft.limits.max_size
        and _record_bytes(_classic_group(group, context)) <= context.draft.limits.max_group_bytes
    )


def downgrade(work: ConsumerWork, context: ConsumerContext) -> ClassicGroup:
    """Ends the work. The classic group is about to rebalance; the caller notes it when it is done with it."""
    group, draft = work.group, context.draft
    classic = _classic_group(group, context)
    for member_id in group.members:
        stop_clocks(group.group_id, member_id, context)
    work.finish(draft)
    draft.write(*group.tombstones(), classic.stored())
    for member_id in classic.members:
        renew_session(classic, member_id, draft)
    if classic.members:
        prepare_rebalance(classic, draft)
    return classic


def _classic_group(group: ConsumerGroup, context: ConsumerContext) -> ClassicGroup:
    classic = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE if group.members else ClassicState.EMPTY,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        state_since_ms=context.draft.now_ms,
    )
    for member in group.members.values():
        if member.subscription.classic is not None:
            classic.put(_stored(member, member.subscription.classic, context))
    classic.protocol_name = select_protocol(classic)
    return classic


def _record_bytes(classic: ClassicGroup) -> int:
    return classic.weight_bytes + sum(len(member.assignment) for member in classic.members.values())


def _stored(member: ConsumerMember, classic: ClassicProtocols, context: ConsumerContext) -> StoredMember:
    """With what it has, not with what it was to get: the rebalance that follows decides anew."""
    subscription = member.subscription
    return StoredMember(
        member_id=member.member_id,
        group_instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        protocols=classic.protocols,
        assignment=embedded_assignment(member, classic, context),
    )


def embedded_assignment(member: ConsumerMember, classic: ClassicProtocols, context: ConsumerContext) -> bytes:
    """What the member has, in its own version of Kafka's format. Partitions of topics that are gone are left out."""
    embedded = read_subscription(classic.protocols[0][1]) if classic.protocols else None
    names = context.known.topics.names if context.known.topics is not None else {}
    named = ((names[topic_id], indexes) for topic_id, indexes in member.current.assigned.items() if topic_id in names)
    return write_assignment(named, embedded.version if embedded else 0)
