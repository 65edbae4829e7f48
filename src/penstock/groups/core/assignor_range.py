"""The `range` assignor: contiguous ranges per topic, so that equal partition numbers of several topics meet.

It is for joins over co-partitioned topics. It is not sticky: a member that comes or goes shifts the ranges.
"""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from penstock.groups.core.assignors import Partitions, Subscriptions, partitions_of


def assign_range(subscriptions: Subscriptions) -> dict[str, Partitions]:
    """Members take their ranges in one order for all topics: static ones first, by instance id, because that order

    survives a restart of the member; then dynamic ones by member id.
    """
    members = subscriptions.members
    in_order = sorted(members, key=lambda id_: (members[id_].instance_id is None, members[id_].instance_id or id_))
    subscribers: dict[UUID, list[str]] = defaultdict(list)
    for member_id in in_order:
        for topic_id in members[member_id].topic_ids:
            subscribers[topic_id].append(member_id)

    assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in in_order}
    for topic_id, topic_members in subscribers.items():
        each, extra = divmod(subscriptions.partition_counts[topic_id], len(topic_members))
        first = 0
        for position, member_id in enumerate(topic_members):
            behind = first + each + (position < extra)
            assigned[member_id][topic_id] = frozenset(range(first, behind))
            first = behind
    return {member_id: partitions_of(topics) for member_id, topics in assigned.items()}
