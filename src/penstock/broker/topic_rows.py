"""A topic and its partitions as Metadata and DescribeTopicPartitions show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from penstock.broker.error_codes import NONE
from penstock.cluster.core.image import PartitionImage, TopicImage

Row = TypeVar("Row")


def topic_row(
    topic: TopicImage,
    partitions: Iterable[tuple[int, PartitionImage]],
    row: Callable[..., Row],
    partition_row: Callable[..., object],
) -> Row:
    """Made with the fields that both answers have; `row` and `partition_row` know the others."""
    return row(
        error_code=NONE,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(
            partition_row(
                error_code=NONE,
                partition_index=i32(index),
                leader_id=BrokerId(partition.leader),
                leader_epoch=i32(partition.leader_epoch),
                replica_nodes=tuple(map(BrokerId, partition.replicas)),
                isr_nodes=tuple(map(BrokerId, partition.isr)),
                offline_replicas=(),
            )
            for index, partition in partitions
        ),
    )
