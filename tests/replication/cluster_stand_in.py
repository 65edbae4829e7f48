"""What a controller is for brokers: it records states, and answers when a leader wants to change an ISR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from penstock.cluster.core.messages import IsrWish
from penstock.cluster.core.view import PartitionNode
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.partition import Partition


@dataclass
class Asked:
    topic_id: UUID
    partition: int
    leader_epoch: int
    version: int
    isr: list[tuple[int, int]]
    answer: Later[PartitionNode | Refused]
    lost: list[int]


class HandController:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def alter(self, wish: IsrWish) -> Later[PartitionNode | Refused]:
        answer: Later[PartitionNode | Refused] = Later()
        place = (wish.topic_id, wish.partition, wish.leader_epoch, wish.partition_epoch)
        self.asked.append(Asked(*place, list(wish.isr), answer, list(wish.lost)))
        return answer


class NoController:
    """For a broker that leads alone, where there is nothing to change."""

    def alter(self, wish: IsrWish) -> Later[PartitionNode | Refused]:
        return Later.of(Refused(Problem.STORE_UNAVAILABLE, "there is no way to the controller"))


class NoFetchers:
    """For a broker without others."""

    def follow(self, partition: Partition, leader: int) -> None:
        """Nobody is there to be followed."""

    def leave(self, partition: Partition) -> None:
        """It was not fetched for."""

    def cut(self, partition: Partition, offset: int) -> None:
        """It would stay as it is: nobody has what is missing."""

    def keep_holes(self, partition: Partition) -> None:
        """No log here has one."""

    def go_on(self, partition: Partition) -> None:
        """There is nothing to fetch."""

    def brokers_changed(self) -> None:
        """Nobody is there who would ask."""

    def attach(self, take_role: Callable[[Partition], None]) -> None:
        """Nothing is ever being settled."""
