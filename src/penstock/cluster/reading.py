"""The whole of what a store holds about the cluster, read in a few round trips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.cluster.core.delta import BrokerRow, PartitionRow, TopicRow
from penstock.cluster.core.election import TopicSettings
from penstock.cluster.core.view import BrokerView, PartitionNode, TopicView, View
from penstock.config.log import LogSettings
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.coordination.identity import identity_of
from penstock.coordination.interface import Check, Node, Store
from penstock.coordination.paths import (
    BROKER_STATE,
    BROKER_STATES,
    CLUSTER_ID,
    CONFIGS,
    CONTROLLER_EPOCH,
    CONTROLLER_EPOCH_STATE,
    NO_EPOCH,
    PARTITION,
    REGISTRATION,
    REGISTRATIONS,
    TOPIC,
    TOPICS,
    Registration,
    broker_state_path,
    partition_path,
    registration_path,
    topic_config_path,
    topic_path,
)
from penstock.errors import PenstockError, Problem

# Answers that wait for each other take memory; so many in one go take a few milliseconds.
_READ_TOGETHER = 2_000


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What counts for topics that do not say."""

    log: LogSettings
    replication: TopicReplicationSettings

    def of(self, config: Mapping[str, str]) -> TopicSettings:
        replication = self.replication.overridden_by(config)
        return TopicSettings(
            replication.min_insync_replicas,
            self.log.overridden_by(config).flush_policy == "os",
            replication.unclean_leader_election_enable,
        )


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    controller_epoch_version: int
    brokers: Mapping[int, BrokerView]
    topics: Sequence[TopicRow]
    partitions: Sequence[PartitionRow]
    # Names of topics that are half made or half removed.
    unfinished: Sequence[str]
    cluster_id: str
    # NO_EPOCH before the first one.
    controller_epoch: int
    # Topics with garbage in a node, which somebody has to mend: they stay as they are, and are left alone.
    unreadable: Mapping[str, PenstockError]

    def view(self, defaults: TopicDefaults) -> tuple[View, Mapping[str, PenstockError]]:
        """And what is not in it, with the reasons."""
        left_out = dict(self.unreadable)
        view = View(self.controller_epoch_version)
        for node_id, broker in self.brokers.items():
            if broker.registration is not None:
                view.register(node_id, broker.broker_epoch, broker.registration)
            if broker.state is not None:
                view.put_broker_state(node_id, broker.state, broker.version)
        nodes: dict[str, dict[int, PartitionNode]] = {topic.name: {} for topic in self.topics}
        for row in self.partitions:
            nodes[row.topic][row.partition] = PartitionNode(row.state, row.version)
        for topic in self.topics:
            try:
                settings = defaults.of(topic.config)
            except PenstockError as error:
                left_out[topic.name] = error
            else:
                view.put_topic(TopicView(topic.name, topic.topic_id, settings, nodes[topic.name]))
        view.is_complete = not left_out
        return view, left_out


def broker_rows(brokers: Mapping[int, BrokerView], stopping: Mapping[int, int] | None = None) -> tuple[BrokerRow, ...]:
    """`stopping`: by broker, the epoch in which it will go."""
    ends = stopping or {}
    return tuple(_broker_row(node_id, brokers[node_id], ends.get(node_id)) for node_id in sorted(brokers))


def _broker_row(node_id: int, broker: BrokerView, stopping_epoch: int | None) -> BrokerRow:
    registration, state = broker.registration, broker.state
    draining = state is not None and state.draining
    config = {} if state is None else state.config
    if registration is None:
        return BrokerRow(node_id, draining=draining, config=config)
    return BrokerRow(
        node_id,
        registration.host,
        registration.port,
        registration.rack,
        registration.machine,
        broker.broker_epoch,
        broker.is_live,
        True,
        draining,
        -1 if state is None else state.fenced_epoch,
        broker.broker_epoch == stopping_epoch,
        config,
    )


async def read_cluster(store: Store, *, by_quorum: bool = False) -> ClusterNodes:
    """After a sync: what was answered to anybody before is in it. `by_quorum`: also if the server that answers has been

    cut off from the others and does not know it yet; that takes a transaction. Raises ForeignStore for what is no
    cluster's store, PenstockError for garbage in a node that is no topic's.
    """
    await store.sync()
    identity = await identity_of(store)
    if by_quorum:
        await store.commit([Check(CLUSTER_ID, identity.version)])
    epoch = await store.read(CONTROLLER_EPOCH)
    brokers = await _read_brokers(store)
    names = await store.children(TOPICS)
    topic_nodes = await _read_all(store, [topic_path(name) for name in names])
    config_nodes = await _read_all(store, [topic_config_path(name) for name in names])
    topics, unfinished = [], []
    unreadable: dict[str, PenstockError] = {}
    for name, topic_node, config_node in zip(names, topic_nodes, config_nodes, strict=True):
        if topic_node is None:
            continue
        try:
            row = topic_row_of(name, topic_node, config_node)
        except PenstockError as error:
            unreadable[name] = error
            continue
        if row.partition_count:
            topics.append(row)
        else:
            unfinished.append(name)
    partitions = await _read_partitions(store, topics, unreadable)
    missing = {topic.name: topic.partition_count for topic in topics}
    for partition in partitions:
        missing[partition.topic] -= 1
    unreadable.update(await _mutilated(store, [t for t in topics if missing[t.name] and t.name not in unreadable]))
    topics = [topic for topic in topics if not missing[topic.name]]
    partitions = [partition for partition in partitions if not missing[partition.topic]]
    version = -1 if epoch is None else epoch.version
    number = NO_EPOCH if epoch is None else CONTROLLER_EPOCH_STATE.decode(epoch.data, CONTROLLER_EPOCH).epoch
    return ClusterNodes(version, brokers, topics, partitions, unfinished, identity.cluster_id, number, unreadable)


async def read_registrations(store: Store) -> dict[int, tuple[int, Registration]]:
    """Broker epoch and registration, by broker."""
    ids = _ids(await store.children(REGISTRATIONS))
    nodes = await store.read_many([registration_path(node_id) for node_id in ids])
    return {
        node_id: (node.created, REGISTRATION.decode(node.data, registration_path(node_id)))
        for node_id, node in zip(ids, nodes, strict=True)
        if node is not None
    }


def topic_row_of(name: str, topic: Node, config: Node | None) -> TopicRow:
    state = TOPIC.decode(topic.data, topic_path(name))
    values = {} if config is None else CONFIGS.decode(config.data, topic_config_path(name)).values
    version = -1 if config is None else config.version
    return TopicRow(name, state.topic_id, state.generation, state.partition_count, values, version)


async def _read_brokers(store: Store) -> dict[int, BrokerView]:
    brokers: dict[int, BrokerView] = {}
    for node_id, (broker_epoch, registration) in (await read_registrations(store)).items():
        brokers[node_id] = BrokerView(registration, broker_epoch)
    known = _ids(await store.children(BROKER_STATES))
    nodes = await store.read_many([broker_state_path(node_id) for node_id in known])
    for node_id, node in zip(known, nodes, strict=True):
        if node is not None:
            broker = brokers.setdefault(node_id, BrokerView())
            broker.state, broker.version = BROKER_STATE.decode(node.data, broker_state_path(node_id)), node.version
    return brokers


async def _read_partitions(
    store: Store, topics: Sequence[TopicRow], unreadable: dict[str, PenstockError]
) -> list[PartitionRow]:
    wanted = [(topic, number) for topic in topics for number in range(topic.partition_count)]
    nodes = await _read_all(store, [partition_path(topic.name, number) for topic, number in wanted])
    rows = []
    for (topic, number), node in zip(wanted, nodes, strict=True):
        if node is None:
            continue
        try:
            state = PARTITION.decode(node.data, partition_path(topic.name, number))
        except PenstockError as error:
            # So it has fewer than it should have, and is left out.
            unreadable[topic.name] = error
        else:
            rows.append(PartitionRow(topic.name, topic.topic_id, number, state, node.version))
    return rows


async def _mutilated(store: Store, topics: Sequence[TopicRow]) -> dict[str, PenstockError]:
    """Of these, of which partitions are missing, those that nobody is removing: then the topic goes with the first of

    them, or says before that it has none. Somebody has taken a node away, and it is no reason to delete a topic.
    """
    found = {}
    for topic, node in zip(topics, await _read_all(store, [topic_path(t.name) for t in topics]), strict=True):
        state = None if node is None else TOPIC.decode(node.data, topic_path(topic.name))
        if state is not None and state.topic_id == topic.topic_id and state.partition_count:
            text = f"nodes of partitions are missing below {topic_path(topic.name)}, which says that there are "
            found[topic.name] = PenstockError(Problem.STORAGE_FAILED, f"{text}{state.partition_count}")
    return found


async def _read_all(store: Store, paths: Sequence[str]) -> list[Node | None]:
    nodes: list[Node | None] = []
    for start in range(0, len(paths), _READ_TOGETHER):
        nodes += await store.read_many(paths[start : start + _READ_TOGETHER])
    return nodes


def _ids(names: Sequence[str]) -> list[int]:
    return [int(name) for name in names if name.isascii() and name.isdigit()]
