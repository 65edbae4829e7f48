"""ConsumerGroupDescribe."""

from __future__ import annotations

from penstock.errors import Problem
from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_events import DescribedConsumer, DescribedConsumerGroup, NamedPartitions
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.consumer_topics import TopicsView
from penstock.groups.core.group import Group


def describe(
    group_id: str, group: Group | None, topics: TopicsView | None, limits: ConsumerLimits
) -> DescribedConsumerGroup:
    """Classic groups are none of ours: the caller falls back to DescribeGroups when it reads UNKNOWN_GROUP."""
    if not isinstance(group, ConsumerGroup):
        text = f"there is no consumer group {group_id}" if group is None else f"group {group_id} is a classic group"
        return DescribedConsumerGroup(group_id, Problem.UNKNOWN_GROUP, text)
    preferred = group.preferred_assignor
    return DescribedConsumerGroup(
        group_id=group_id,
        problem=None,
        state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=preferred if preferred in limits.assignors else limits.assignors[0],
        members=tuple(_member(group.members[member_id], group, topics) for member_id in sorted(group.members)),
    )


def _member(member: ConsumerMember, group: ConsumerGroup, topics: TopicsView | None) -> DescribedConsumer:
    subscription = member.subscription
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        topic_names=subscription.topic_names,
        topic_regex=subscription.topic_regex,
        assignment=_named(member.current.assigned, topics),
        target=_named(group.target_of(member.member_id), topics),
        is_classic=member.is_classic,
    )


def _named(partitions: Partitions, topics: TopicsView | None) -> tuple[NamedPartitions, ...]:
    names = topics.names if topics is not None else {}
    return tuple(
        NamedPartitions(names[topic_id], topic_id.bytes, tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
        if topic_id in names
    )
