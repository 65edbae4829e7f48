"""DescribeTopicPartitions: like Metadata for topics, but in pages (KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.topic_rows import topic_row
from penstock.cluster.core.image import Image, PartitionImage, TopicImage

# Whatever a client asks for: one answer stays small.
MAX_PARTITIONS = 2000


class DescribeTopicPartitions:
    """No topics in the request means all. A cursor starts the page at that topic and partition."""

    api = Api(key=75, versions=(0, 0))

    def __init__(self, image: Image) -> None:
        self._image = image

    def start(self, request: DescribeTopicPartitionsRequest, caller: Caller) -> DescribeTopicPartitionsResponse:
        left = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
        rows: list[DescribeTopicPartitionsResponseTopic] = []
        next_cursor = None
        for name, first in self._wanted(request):
            if left == 0:
                next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(first))
                break
            topic = self._image.topic(name)
            if topic is None:
                rows.append(_missing(name))
                continue
            row = self._found(topic, first, left)
            rows.append(row)
            left -= len(row.partitions)
            if first + len(row.partitions) < len(topic.partitions):
                next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(first + len(row.partitions)))
                break
        return DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=tuple(rows), next_cursor=next_cursor)

    def _found(self, topic: TopicImage, first: int, most: int) -> DescribeTopicPartitionsResponseTopic:
        page = islice(enumerate(topic.partitions), first, first + most)
        return topic_row(
            topic,
            page,
            DescribeTopicPartitionsResponseTopic,
            DescribeTopicPartitionsResponsePartition,
            self._image.live_epochs,
            more=_eligible,
        )

    def _wanted(self, request: DescribeTopicPartitionsRequest) -> list[tuple[str, int]]:
        names = sorted({str(row.name) for row in request.topics} or {topic.name for topic in self._image.topics()})
        if request.cursor is None:
            return [(name, 0) for name in names]
        cursor = request.cursor
        return [
            (name, max(0, cursor.partition_index) if name == cursor.topic_name else 0)
            for name in names
            if name >= cursor.topic_name
        ]


def _eligible(partition: PartitionImage) -> Mapping[str, object]:
    return {
        "eligible_leader_replicas": tuple(map(BrokerId, partition.state.eligible_leaders)),
        "last_known_elr": tuple(map(BrokerId, partition.state.last_known_eligible_leaders)),
    }


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.unknown_topic_or_partition, name=TopicName(name), topic_id=None, partitions=()
    )
