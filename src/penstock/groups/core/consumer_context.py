"""What every decision about KIP-848 groups looks at beside the group itself."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import PenstockError, Problem
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.consumer_topics import TopicsView
from penstock.groups.core.consumer_volatile import ConsumerVolatile
from penstock.groups.core.draft import Draft


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    limits: ConsumerLimits
    known: ConsumerVolatile
    draft: Draft

    @property
    def topics(self) -> TopicsView:
        """Without them no assignment can be made: an empty one would take every member's partitions away."""
        if self.known.topics is None:
            raise PenstockError(Problem.COORDINATOR_LOADING, "the coordinator does not know the topics yet: ask again")
        return self.known.topics
