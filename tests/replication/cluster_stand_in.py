"""What a controller is for brokers: it records states, and answers when a leader wants to change an ISR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.cluster.core.view import PartitionNode
from penstock.errors import Refused
from penstock.later import Later


@dataclass
class Asked:
    topic_id: UUID
    partition: int
    leader_epoch: int
    version: int
    isr: list[tuple[int, int]]
    answer: Later[PartitionNode | Refused]


class HandController:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def alter(
        self, topic_id: UUID, partition: int, leader_epoch: int, partition_epoch: int, isr: Sequence[tuple[int, int]]
    ) -> Later[PartitionNode | Refused]:
        answer: Later[PartitionNode | Refused] = Later()
        self.asked.append(Asked(topic_id, partition, leader_epoch, partition_epoch, list(isr), answer))
        return answer
