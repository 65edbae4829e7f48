"""DescribeLogDirs: the one data directory, its logs and its free space."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE
from penstock.replication.replicas import Replicas

# Stands for all partitions of a topic.
_ALL = -1


class DescribeLogDirs:
    """Null topics mean all; so do a topic's empty partitions, as Kafka's own tools send them."""

    api = Api(key=35, versions=(1, 5))

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def start(self, request: DescribeLogDirsRequest, caller: Caller) -> DescribeLogDirsResponse:
        wanted = None if request.topics is None else _wanted(request.topics)
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for partition in self._replicas:
            if wanted is not None:
                indexes = wanted.get(partition.topic)
                if indexes is None or (_ALL not in indexes and partition.index not in indexes):
                    continue
            row = DescribeLogDirsPartition(
                partition_index=i32(partition.index),
                partition_size=i64(partition.log.size_bytes),
                offset_lag=i64(0),
                is_future_key=False,
            )
            topics.setdefault(partition.topic, []).append(row)
        space = self._replicas.disk_space()
        result = DescribeLogDirsResult(
            error_code=NONE,
            log_dir=self._replicas.directory,
            topics=tuple(
                DescribeLogDirsTopic(name=TopicName(name), partitions=tuple(rows)) for name, rows in topics.items()
            ),
            total_bytes=i64(space.total_bytes),
            usable_bytes=i64(space.free_bytes),
        )
        return DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=NONE, results=(result,))


def _wanted(topics: Iterable[DescribableLogDirTopic]) -> dict[str, set[int]]:
    """A topic may be in several rows."""
    wanted: dict[str, set[int]] = {}
    for row in topics:
        wanted.setdefault(row.topic, set()).update(row.partitions or (_ALL,))
    return wanted
