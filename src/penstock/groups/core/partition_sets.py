"""Arithmetic with partitions by topic id. No topic without partitions in what goes in, none in what comes out."""

from __future__ import annotations

from penstock.groups.core.assignors import Partitions


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
