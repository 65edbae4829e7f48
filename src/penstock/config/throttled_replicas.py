"""Replicas of a topic that a limit concerns, as Kafka's tools name them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

_ALL = "*"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or PARTITION:BROKER with commas between; nothing: none."""

    text: str
    # None: all.
    replicas: frozenset[tuple[int, int]] | None

    wanted: ClassVar[str] = "*, or PARTITION:BROKER separated by commas, for example 0:1,0:2, or nothing"

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> Self:
        """ValueError if it is neither."""
        if text == _ALL:
            return cls(text, None)
        return cls(text, frozenset(_pair(part.strip()) for part in text.split(",")) if text else frozenset())

    def has(self, partition: int, node_id: int) -> bool:
        return self.replicas is None or (partition, node_id) in self.replicas

    def __str__(self) -> str:
        return self.text


def _pair(text: str) -> tuple[int, int]:
    partition, _, node_id = text.partition(":")
    # isdigit alone lets other scripts' digits through, which int would take.
    if not (text.isascii() and partition.isdigit() and node_id.isdigit()):
        raise ValueError(text)
    return int(partition), int(node_id)
