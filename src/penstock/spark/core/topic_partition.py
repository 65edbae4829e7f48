"""A partition of a topic by name, as options, offsets and error texts speak of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def listed(partitions: Iterable[TopicPartition]) -> str:
    """For error texts: all of them, in an order that people can compare."""
    return ", ".join(str(partition) for partition in sorted(partitions))
