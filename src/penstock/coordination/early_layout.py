"""Stores of the first releases had a topic and its partitions in one node: each partition gets its own."""

from __future__ import annotations

import msgspec

from penstock.coordination.interface import Change, Create, Replace, Store
from penstock.coordination.paths import (
    PARTITION,
    TOPIC,
    TOPICS,
    Codec,
    PartitionState,
    TopicState,
    partition_path,
    topic_path,
)
from penstock.errors import PenstockError, Problem

_MARK = b'"partitions":'


class _EarlyTopic(msgspec.Struct, frozen=True):
    topic_id: msgspec.Raw
    partitions: tuple[PartitionState, ...]


_EARLY = Codec(_EarlyTopic)


async def divide_topics(store: Store) -> None:
    """One transaction for each topic that is still in one node; a crash leaves the rest for the next start."""
    for name in await store.children(TOPICS):
        path = topic_path(name)
        node = await store.read(path)
        if node is None or _MARK not in node.data:
            continue
        early = _EARLY.decode(node.data, path)
        counted = b'{"topic_id":%b,"partition_count":%d,"generation":0}' % (early.topic_id, len(early.partitions))
        state: TopicState = TOPIC.decode(counted, path)
        changes: list[Change] = [Replace(path, TOPIC.encode(state), node.version)]
        for number, partition in enumerate(early.partitions):
            changes.append(Create(partition_path(name, number), PARTITION.encode(partition)))
        try:
            await store.commit(changes)
        except PenstockError as error:
            if error.problem is not Problem.INVALID_REQUEST:
                raise
            text = f"{name} has too many partitions ({len(early.partitions)}) to be taken over from an earlier release"
            raise PenstockError(Problem.INVALID_CONFIG, text) from error
