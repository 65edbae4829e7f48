"""The metadata image: what this broker knows of the cluster right now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from uuid import UUID

from penstock.coordination.paths import NO_EPOCH, NO_LEADER, PartitionState

USAGE_TOPIC = "__usage"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", USAGE_TOPIC})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition's node of the store: the version is the partition epoch."""

    state: PartitionState
    version: int

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.state.isr

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.state.replicas


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
    # Brokers of one machine share it: a failure domain.
    machine: str = ""
    broker_epoch: int = NO_EPOCH
    # Registered, admitted in this epoch, not known to be dead: it may lead and be in sync.
    is_live: bool = True
    # It will go in a moment.
    is_stopping: bool = False
    # Settings that were changed while it runs: they count over those of its start.
    config: Mapping[str, str] = field(default_factory=dict)


class Image:
    """Read by everyone; written only by whoever follows the coordination store, and doubts by whoever has them."""

    def __init__(self, cluster_id: str, node_id: int, brokers: Iterable[BrokerImage] = ()) -> None:
        self.cluster_id = cluster_id
        # This broker.
        self.node_id = node_id
        # That this process registered, or NO_EPOCH.
        self.own_epoch = NO_EPOCH
        # NO_LEADER while there is none.
        self.controller_id = NO_LEADER
        # Those that are known, also those that are away.
        self.brokers: Mapping[int, BrokerImage] = {}
        # Epochs of the brokers that may be in an ISR; and of those among them that may join one.
        self.live_epochs: Mapping[int, int] = {}
        self.lasting_epochs: Mapping[int, int] = {}
        self._stopping: set[tuple[int, int]] = set()
        # As they were: see `cluster/departures.py`.
        self.departed: dict[int, BrokerImage] = {}
        # By broker, the epoch in which it seems to be dead.
        self._doubted: dict[int, int] = {}
        self._topics: dict[str, TopicImage] = {}
        self._names: dict[UUID, str] = {}
        self.put_brokers(brokers)

    def put_brokers(self, brokers: Iterable[BrokerImage]) -> None:
        """All that are known now. What was read before stays as it is, so that a reader may compare."""
        self.brokers = {broker.node_id: broker for broker in brokers}
        live = [broker for broker in self.brokers.values() if broker.is_live]
        self.live_epochs = {broker.node_id: broker.broker_epoch for broker in live}
        # Once said, it stays so for that life: the next controller does not know of it.
        self._stopping |= {(broker.node_id, broker.broker_epoch) for broker in live if broker.is_stopping}
        self._stopping &= set(self.live_epochs.items())
        self.lasting_epochs = dict(self.live_epochs.items() - self._stopping)

    @property
    def agreed_epoch(self) -> int:
        """This process's own, if what is known of the brokers agrees; else NO_EPOCH. The broker with this id may be
        another process by now, and nothing may be done in its name.
        """
        own = self.brokers.get(self.node_id)
        return self.own_epoch if own is not None and own.broker_epoch == self.own_epoch else NO_EPOCH

    def doubt(self, node_id: int) -> None:
        """It may be dead, which only the controller decides. Until then clients had better ask again."""
        if (broker := self.brokers.get(node_id)) is not None:
            self._doubted[node_id] = broker.broker_epoch

    def trust(self, node_id: int) -> None:
        self._doubted.pop(node_id, None)

    @property
    def doubted(self) -> Set[int]:
        """Of those that are there by record, in the life that they are in."""
        return {node_id for node_id, epoch in self._doubted.items() if self.live_epochs.get(node_id) == epoch}

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
