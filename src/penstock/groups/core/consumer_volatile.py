"""What the machine knows about KIP-848 groups and may forget; a part of `Volatile`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.groups.core.consumer_topics import TopicsView


@dataclass(frozen=True, slots=True)
class TopicsLearned:
    topics: TopicsView


@dataclass(frozen=True, slots=True)
class TopicsCompared:
    """The group's stored hash holds for these topics."""

    group_id: str
    topics: TopicsView


ConsumerNote = TopicsLearned | TopicsCompared


class ConsumerVolatile:
    """Safe to lose: the topics are told again after every load, and until then heartbeats are answered "loading"; a

    comparison that is forgotten is made again.
    """

    def __init__(self) -> None:
        self.topics: TopicsView | None = None
        self._compared: dict[str, TopicsView] = {}

    def has_compared(self, group_id: str) -> bool:
        return self.topics is not None and self._compared.get(group_id) is self.topics

    def remember(self, note: ConsumerNote) -> None:
        match note:
            case TopicsLearned(topics):
                self.topics = topics
                self._compared.clear()
            case TopicsCompared(group_id, topics):
                self._compared[group_id] = topics

    def forget_group(self, group_id: str) -> None:
        self._compared.pop(group_id, None)
