"""The metadata image: what this broker knows of the cluster right now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

INTERNAL_TOPICS = frozenset({"__consumer_offsets"})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    config: Mapping[str, str]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class BrokerImage:
    node_id: int
    host: str
    port: int
    rack: str | None


class Image:
    """Read by everyone; written only by whoever follows the coordination store."""

    def __init__(self, cluster_id: str, brokers: Iterable[BrokerImage] = ()) -> None:
        self.cluster_id = cluster_id
        self.brokers = {broker.node_id: broker for broker in brokers}
        self._topics: dict[str, TopicImage] = {}
        self._names: dict[UUID, str] = {}

    @property
    def controller_id(self) -> int:
        return min(self.brokers, default=-1)

    def topic(self, name: str) -> TopicImage | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def topics(self) -> list[TopicImage]:
        """By name, as listings show them."""
        return [self._topics[name] for name in sorted(self._topics)]

    def put(self, topic: TopicImage) -> None:
        self.remove(topic.name)
        self._topics[topic.name] = topic
        self._names[topic.id] = topic.name

    def remove(self, name: str) -> None:
        topic = self._topics.pop(name, None)
        if topic is not None:
            del self._names[topic.id]
