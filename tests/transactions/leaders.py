"""The leaders of partitions, as far as a transaction coordinator can tell, and who gives out producer ids."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.transactions.markers import Marker, Outcome, Place


@dataclass(eq=False)
class Asked:
    node_id: int
    markers: tuple[Marker, ...]
    answer: Later[Sequence[Outcome] | Refused] = field(default_factory=Later)

    def places(self) -> list[Place]:
        rows = [row for marker in self.markers for row in marker.topics]
        return [(row.topic, partition) for row in rows for partition in row.partitions]


class Leaders:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer_at_once = True
        # What they answer, where that is not success.
        self.problems: dict[Place, Problem] = {}

    def send(self, node_id: int, markers: Sequence[Marker]) -> Later[Sequence[Outcome] | Refused]:
        asked = Asked(node_id, tuple(markers))
        self.asked.append(asked)
        if self.answer_at_once:
            self.answer(asked)
        return asked.answer

    def answer(self, asked: Asked) -> None:
        outcomes: list[Outcome] = []
        for marker in asked.markers:
            places = [(row.topic, partition) for row in marker.topics for partition in row.partitions]
            outcomes.append({place: self.problems.get(place) for place in places})
        asked.answer.complete(outcomes)


class ProducerIds:
    def __init__(self) -> None:
        self._ids = itertools.count(100)
        self.refused: Refused | None = None

    async def allocate(self) -> int | Refused:
        return self.refused or next(self._ids)
