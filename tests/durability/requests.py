"""Requests that no client library here can send."""

from __future__ import annotations

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32


def describe_producers(topic: str, partition: int = 0) -> DescribeProducersRequest:
    row = TopicRequest(name=TopicName(topic), partition_indexes=(i32(partition),))
    return DescribeProducersRequest(topics=(row,))
