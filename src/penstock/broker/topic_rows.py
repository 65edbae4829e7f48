"""A topic and its partitions as Metadata and DescribeTopicPartitions show them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from typing import TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32
from msgspec.structs import replace

from penstock.broker.error_codes import NONE
from penstock.cluster.core.image import PartitionImage, TopicImage
from penstock.coordination.paths import NO_LEADER

Row = TypeVar("Row")


def led_by_others(partitions: Sequence[PartitionImage], doubted: Set[int]) -> Sequence[PartitionImage]:
    """Nobody leads what a doubted broker leads: a client that is sent to a dead leader waits for it, and one that

    hears of none asks again in a moment.
    """
    if not doubted:
        return partitions
    return [
        PartitionImage(replace(each.state, leader=NO_LEADER), each.version) if each.leader in doubted else each
        for each in partitions
    ]


def topic_row(
    topic: TopicImage,
    partitions: Iterable[tuple[int, PartitionImage]],
    row: Callable[..., Row],
    partition_row: Callable[..., object],
    live: Container[int],
    no_leader: ErrorCode = NONE,
    more: Callable[[PartitionImage], Mapping[str, object]] = lambda partition: {},
) -> Row:
    """Made with the fields that both answers have; `row` knows the others, `more` those of a partition."""
    return row(
        error_code=NONE,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(
            partition_row(
                error_code=NONE if partition.leader != NO_LEADER else no_leader,
                partition_index=i32(index),
                leader_id=BrokerId(partition.leader),
                leader_epoch=i32(partition.leader_epoch),
                replica_nodes=tuple(map(BrokerId, partition.replicas)),
                isr_nodes=tuple(map(BrokerId, partition.isr)),
                offline_replicas=tuple(BrokerId(each) for each in partition.replicas if each not in live),
                **more(partition),
            )
            for index, partition in partitions
        ),
    )
