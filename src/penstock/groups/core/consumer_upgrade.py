"""A classic group becomes a KIP-848 group under its members' feet, because the first KIP-848 member joins.

The classic members stay members: each is at the epoch that was its generation, with the partitions that it had. They
learn of the change by being told to rejoin.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from penstock.errors import PenstockError, Problem
from penstock.groups.core.answers import JoinAnswer, SyncAnswer
from penstock.groups.core.assignors import NO_PARTITIONS, Partitions
from penstock.groups.core.classic_protocols import metadata_of
from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_embedded import (
    EmbeddedSubscription,
    TopicIndexes,
    read_assignment,
    read_subscription,
)
from penstock.groups.core.consumer_reconcile import CurrentAssignment
from penstock.groups.core.consumer_records import ClassicProtocols, SubscriptionValue
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.consumer_timers import start_clocks, stop_clocks
from penstock.groups.core.consumer_topics import TopicsView
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.deadlines import Deadline, Purpose
from penstock.groups.core.group import CONSUMER_PROTOCOL_TYPE
from penstock.groups.core.partition_sets import difference, union
from penstock.groups.core.records import StoredMember


def upgrade(group: ClassicGroup, context: ConsumerContext) -> ConsumerWork:
    """The group as a KIP-848 one, before the member that brought it about has joined."""
    _check(group, context)
    work = ConsumerWork(ConsumerGroup(group.group_id), context.limits, is_copy=True)
    # Newcomers have no generation yet and may not even know their id: they join again, as anybody does.
    members = {id_: member for id_, member in group.members.items() if id_ not in group.newcomers}
    subscriptions = {id_: _subscription(member, group) for id_, member in members.items()}
    holdings = _holdings(members, subscriptions, context.topics)
    for member_id, member in members.items():
        work.subscribe(member_id, classic_subscription(member, subscriptions[member_id]))
        work.aim(member_id, holdings[member_id])
        epoch = group.generation
        work.place(member_id, CurrentAssignment(epoch, epoch, assigned=holdings[member_id]))
    work.begin_epoch(group.generation, metadata_hash=0)
    work.finish_target(group.generation)
    _end_rebalance(group, context)
    start_clocks(work.group, context)
    context.draft.write(*group.tombstones())
    return work


def _check(group: ClassicGroup, context: ConsumerContext) -> None:
    reason = None
    if not context.limits.migration_policy.allows_upgrade:
        reason = "has classic members, and group.consumer.migration.policy forbids to upgrade it"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "has members that are no consumers"
    elif len(group.members) >= context.limits.max_size:
        reason = f"is larger than group.consumer.max.size ({context.limits.max_size})"
    if reason is not None:
        raise PenstockError(Problem.UNKNOWN_GROUP, f"group {group.group_id} {reason}")


def _subscription(member: StoredMember, group: ClassicGroup) -> EmbeddedSubscription:
    subscription = read_subscription(metadata_of(member, group.protocol_name))
    if subscription is None or read_assignment(member.assignment) is None:
        text = f"group {group.group_id} cannot be upgraded: member {member.member_id} sent what no consumer sends"
        raise PenstockError(Problem.UNKNOWN_GROUP, text)
    return subscription


def _holdings(
    members: Mapping[str, StoredMember], subscriptions: Mapping[str, EmbeddedSubscription], topics: TopicsView
) -> dict[str, Partitions]:
    """Who may be reading what: all that a member was assigned, and all that it had when it joined. A cooperative

    member gives up partitions when it learns its assignment, and proves it only by joining once more.
    """
    holdings: dict[str, Partitions] = {}
    claimed: Partitions = {}
    assigned = {id_: read_assignment(member.assignment) or () for id_, member in members.items()}
    owned = {id_: subscription.owned for id_, subscription in subscriptions.items()}
    for rows in (assigned, owned):
        for member_id in members:
            # Two members claim one partition only if an assignor is broken; the first has it.
            more = difference(named_partitions(rows[member_id], topics), claimed)
            holdings[member_id] = union(holdings.get(member_id, NO_PARTITIONS), more)
            claimed = union(claimed, more)
    return holdings


def classic_subscription(member: StoredMember, subscription: EmbeddedSubscription) -> SubscriptionValue:
    return SubscriptionValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=tuple(sorted(set(subscription.topics))),
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
    )


def named_partitions(rows: TopicIndexes, topics: TopicsView) -> Partitions:
    """By topic id; what does not exist is left out."""
    found: dict[UUID, frozenset[int]] = {}
    for name, indexes in rows:
        topic = topics.by_name.get(name)
        existing = frozenset(index for index in indexes if topic and 0 <= index < topic.partition_count)
        if topic is not None and existing:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | existing
    return found


def _end_rebalance(group: ClassicGroup, context: ConsumerContext) -> None:
    """Who waits for the end of a classic rebalance waits in vain: it is told to join again."""
    draft = context.draft
    for member_id, ticket in group.joins.items():
        draft.release(ticket, JoinAnswer(Problem.REBALANCE_IN_PROGRESS, member_id))
    for ticket in group.syncs.values():
        draft.release(ticket, SyncAnswer(Problem.REBALANCE_IN_PROGRESS))
    for purpose in (Purpose.JOIN_PHASE, Purpose.SYNC_PHASE):
        draft.disarm(Deadline(group.group_id, purpose))
    for member_id in (*group.pending, *group.newcomers):
        stop_clocks(group.group_id, member_id, context)
