"""How long readers of committed records wait for what is there."""

from __future__ import annotations

import time
from collections.abc import Set
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v5.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64
from tests.cluster.faults.cluster import TestCluster

LOOK_EVERY_S = 0.1
_LATEST = i64(-1)


class Look(NamedTuple):
    """Until the last stable offsets had passed all ends that were seen first, or for as long as anybody waited."""

    took_s: float
    # By partition: the end that was seen, and the last stable offset that has not passed it (-1: nobody said).
    stuck: dict[int, tuple[int, int]]


class Stability:
    """Leaders are asked directly: a client library would have times of its own."""

    def __init__(self, cluster: TestCluster, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions

    def look(self, longest_s: float) -> Look:
        """Whatever is there now was begun before now, so its end comes within the timeout of transactions."""
        began = time.monotonic()
        ends: dict[int, int] = {}
        stable: dict[int, int] = {}
        waiting = set(range(self._partitions))
        while waiting and time.monotonic() - began < longest_s:
            ends |= self._ask(waiting - ends.keys(), committed=False)
            stable |= self._ask(waiting & ends.keys(), committed=True)
            waiting -= {partition for partition, offset in stable.items() if offset >= ends[partition]}
            time.sleep(LOOK_EVERY_S if waiting else 0)
        stuck = {partition: (ends.get(partition, -1), stable.get(partition, -1)) for partition in sorted(waiting)}
        return Look(time.monotonic() - began, stuck)

    def _ask(self, partitions: Set[int], *, committed: bool) -> dict[int, int]:
        """Of those whose leaders answer."""
        found: dict[int, int] = {}
        try:
            views = [view for view in self._cluster.partitions(self._topic) if view.partition in partitions]
        except ConnectionError:
            return found
        for leader in {view.leader for view in views} & self._cluster.brokers.keys():
            led = tuple(
                ListOffsetsPartition(partition_index=i32(view.partition), timestamp=_LATEST)
                for view in views
                if view.leader == leader
            )
            request = ListOffsetsRequest(
                replica_id=BrokerId(-1),
                isolation_level=i8(committed),
                topics=(ListOffsetsTopic(name=TopicName(self._topic), partitions=led),),
            )
            try:
                answer = self._cluster.ask(request, self._cluster.brokers[leader])
            except ConnectionError:
                continue
            for row in answer.topics[0].partitions:
                if row.error_code is ErrorCode.none:
                    found[row.partition_index] = row.offset
        return found
