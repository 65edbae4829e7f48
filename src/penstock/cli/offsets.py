"""Looking up offsets on a node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import typer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.cli.connection import REQUEST_TIMEOUT_S
from penstock.cli.core.position import Anchor, Position


class Bounds(NamedTuple):
    start: int
    end: int


Partition = tuple[str, int]


def partitions_of(admin: AdminClient, topic: str) -> list[Partition]:
    """KafkaException if there is no such topic. Asking does not create it."""
    found = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(topic)
    return sorted((topic, number) for number in found.partitions) if found is not None else []


def bounds_of(admin: AdminClient, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
    wanted = list(partitions)
    starts = _look_up(admin, wanted, OffsetSpec.earliest())
    ends = _look_up(admin, wanted, OffsetSpec.latest())
    return {partition: Bounds(starts[partition], ends[partition]) for partition in wanted}


def resolve(admin: AdminClient, partitions: Iterable[Partition], position: Position) -> dict[Partition, int]:
    """The offset that a position means in each partition; a time behind the last record means the end."""
    wanted = list(partitions)
    bounds = bounds_of(admin, wanted)
    resolved = {partition: position.within(*bounds[partition]) for partition in wanted}
    if position.anchor is Anchor.TIME:
        found = _look_up(admin, wanted, OffsetSpec.for_timestamp(position.number))
        resolved.update({partition: offset for partition, offset in found.items() if offset >= 0})
    return resolved


def position_argument(text: str) -> Position:
    """For options: a wrong position is a usage error."""
    try:
        return Position.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _look_up(admin: AdminClient, partitions: list[Partition], spec: OffsetSpec) -> dict[Partition, int]:
    if not partitions:
        return {}
    wanted = {TopicPartition(topic, number): spec for topic, number in partitions}
    answers = admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
    return {(key.topic, key.partition): future.result().offset for key, future in answers.items()}
