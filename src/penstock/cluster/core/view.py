"""The store as the controller knows it, indexed so that an event costs what it touches and not what there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from penstock.cluster.core.election import TopicSettings, candidates_in_doubt
from penstock.coordination.paths import NO_EPOCH, NO_LEADER, BrokerState, PartitionState, Registration


class PartitionKey(NamedTuple):
    topic: str
    partition: int


class PartitionNode(NamedTuple):
    """A partition's state and its node's version, the partition epoch."""

    state: PartitionState
    version: int


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: UUID
    settings: TopicSettings
    partitions: Mapping[int, PartitionNode]


@dataclass(slots=True)
class BrokerView:
    # None while it is not registered. Its epoch is the node's creation id.
    registration: Registration | None = None
    broker_epoch: int = NO_EPOCH
    # None if it was never admitted, or unregistered since.
    state: BrokerState | None = None
    version: int = 0

    @property
    def is_live(self) -> bool:
        """Registered, admitted in this epoch, not known to be dead: it may lead and be in sync."""
        state = self.state
        return (
            self.registration is not None
            and state is not None
            and state.admitted_epoch == self.broker_epoch
            and state.fenced_epoch < self.broker_epoch
        )

    @property
    def awaits_admission(self) -> bool:
        if self.registration is None:
            return False
        state = self.state
        return state is None or self.broker_epoch > max(state.admitted_epoch, state.fenced_epoch)


@dataclass(slots=True)
class _Topic:
    topic_id: UUID
    settings: TopicSettings
    partitions: dict[int, PartitionNode] = field(default_factory=dict)


# Dictionaries and not sets: what is done first must not depend on the hashes of this process.
_Keys = dict[PartitionKey, None]


class View:
    """Filled by whoever reads the store, then given to the controller, which alone changes it from then on."""

    def __init__(self, controller_epoch_version: int) -> None:
        """The version of the controller epoch's node as it was read together with the rest."""
        self.controller_epoch_version = controller_epoch_version
        # False: there are topics of which nobody knows what they are, so nobody is admitted (admission.py).
        self.is_complete = True
        self.brokers: dict[int, BrokerView] = {}
        # Brokers that may lead and be in sync.
        self.live: set[int] = set()
        # Partitions without a leader; with one that is not the first replica; that are being reassigned; that have
        # nobody left but those who may lack something.
        self.leaderless: _Keys = {}
        self.not_preferred: _Keys = {}
        self.reassigning: _Keys = {}
        self.in_doubt: _Keys = {}
        self._topics: dict[str, _Topic] = {}
        self._names: dict[UUID, str] = {}
        self._by_replica: dict[int, _Keys] = {}

    # Brokers

    def broker(self, node_id: int) -> BrokerView:
        return self.brokers.get(node_id) or BrokerView()

    def register(self, node_id: int, broker_epoch: int, registration: Registration) -> None:
        broker = self.brokers.setdefault(node_id, BrokerView())
        broker.registration, broker.broker_epoch = registration, broker_epoch
        self._judge(node_id)

    def unregister(self, node_id: int) -> None:
        """Its registration is gone; what is known of it for good stays."""
        if (broker := self.brokers.get(node_id)) is not None:
            broker.registration, broker.broker_epoch = None, NO_EPOCH
            self._judge(node_id)

    def put_broker_state(self, node_id: int, state: BrokerState | None, version: int) -> None:
        broker = self.brokers.setdefault(node_id, BrokerView())
        broker.state, broker.version = state, version
        self._judge(node_id)

    def _judge(self, node_id: int) -> None:
        broker = self.brokers[node_id]
        if broker.is_live:
            self.live.add(node_id)
        else:
            self.live.discard(node_id)
        if broker.registration is None and broker.state is None:
            del self.brokers[node_id]

    # Topics

    def put_topic(self, topic: TopicView) -> None:
        """New, grown or recreated. Of a partition that is known already the later version stays."""
        known = self._topics.get(topic.name)
        if known is not None and known.topic_id != topic.topic_id:
            self.remove_topic(topic.name)
            known = None
        if known is None:
            known = self._topics[topic.name] = _Topic(topic.topic_id, topic.settings)
            self._names[topic.topic_id] = topic.name
        known.settings = topic.settings
        for number, node in sorted(topic.partitions.items()):
            if number not in known.partitions or known.partitions[number].version < node.version:
                self.put_partition(PartitionKey(topic.name, number), node)

    def configure_topic(self, name: str, settings: TopicSettings) -> None:
        if (topic := self._topics.get(name)) is not None:
            topic.settings = settings

    def remove_topic(self, name: str) -> None:
        if (topic := self._topics.get(name)) is not None:
            for number in list(topic.partitions):
                self.remove_partition(PartitionKey(name, number))
            del self._topics[name]
            del self._names[topic.topic_id]

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> UUID | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def settings(self, name: str) -> TopicSettings:
        return self._topics[name].settings

    def partition(self, key: PartitionKey) -> PartitionNode | None:
        topic = self._topics.get(key.topic)
        return None if topic is None else topic.partitions.get(key.partition)

    def partitions(self) -> Iterable[PartitionKey]:
        for name, topic in self._topics.items():
            for number in topic.partitions:
                yield PartitionKey(name, number)

    def partitions_of_topic(self, name: str) -> list[PartitionKey]:
        topic = self._topics.get(name)
        return [] if topic is None else [PartitionKey(name, number) for number in topic.partitions]

    def partitions_of(self, node_id: int) -> list[PartitionKey]:
        """Of which it is a replica; those that it leads come first."""
        keys = self._by_replica.get(node_id, {})
        return sorted(keys, key=lambda key: self._topics[key.topic].partitions[key.partition].state.leader != node_id)

    def put_partition(self, key: PartitionKey, node: PartitionNode) -> None:
        """Its topic is known."""
        partitions = self._topics[key.topic].partitions
        before, state = partitions.get(key.partition), node.state
        partitions[key.partition] = node
        if before is None or before.state.replicas != state.replicas:
            if before is not None:
                self._drop_replicas(key, before.state)
            for replica in state.replicas:
                self._by_replica.setdefault(replica, {})[key] = None
        _note(self.leaderless, key, state.leader == NO_LEADER)
        _note(self.not_preferred, key, state.leader not in (NO_LEADER, *state.replicas[:1]))
        _note(self.reassigning, key, bool(state.adding or state.removing))
        _note(self.in_doubt, key, bool(candidates_in_doubt(state)))

    def remove_partition(self, key: PartitionKey) -> None:
        topic = self._topics.get(key.topic)
        if topic is None or (node := topic.partitions.pop(key.partition, None)) is None:
            return
        self._drop_replicas(key, node.state)
        for index in (self.leaderless, self.not_preferred, self.reassigning, self.in_doubt):
            index.pop(key, None)

    def _drop_replicas(self, key: PartitionKey, state: PartitionState) -> None:
        for replica in state.replicas:
            keys = self._by_replica[replica]
            del keys[key]
            if not keys:
                del self._by_replica[replica]


def _note(index: _Keys, key: PartitionKey, belongs: bool) -> None:
    if belongs:
        index[key] = None
    else:
        index.pop(key, None)
