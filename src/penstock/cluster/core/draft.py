"""A transaction in the making: decisions see what earlier ones of the same transaction have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from penstock.cluster.core.effects import Publish, PublishedBroker, PublishedPartition
from penstock.cluster.core.election import Electorate
from penstock.cluster.core.view import PartitionKey, PartitionNode, View
from penstock.coordination.interface import (
    CHANGE_OVERHEAD_BYTES,
    MAX_COMMIT_BYTES,
    Change,
    Check,
    Create,
    Node,
    Remove,
    Replace,
)
from penstock.coordination.paths import (
    BROKER_STATE,
    CONTROLLER_EPOCH,
    PARTITION,
    BrokerState,
    PartitionState,
    broker_state_path,
    partition_path,
)

# Half of what a store takes is a thousand partitions: large enough that the round trips do not matter, small enough
# that deciding and encoding do not hold up the broker around it.
MAX_BYTES = MAX_COMMIT_BYTES // 2


class Draft:
    """Reads through to the view; the view itself changes only when the commit has succeeded (`apply`)."""

    def __init__(self, view: View, electorate: Electorate, max_bytes: int = MAX_BYTES) -> None:
        self.view = view
        self.electorate = electorate
        self._max_bytes = max_bytes
        self._partitions: dict[PartitionKey, PartitionState] = {}
        self._topic_ids: dict[PartitionKey, UUID] = {}
        self._brokers: dict[int, BrokerState | None] = {}
        self._changes: dict[PartitionKey | int, Change] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._max_bytes

    @property
    def is_empty(self) -> bool:
        return not self._changes

    def partition(self, key: PartitionKey) -> PartitionNode | None:
        """With the version that it will have."""
        node = self.view.partition(key)
        if node is not None and key in self._partitions:
            return PartitionNode(self._partitions[key], node.version + 1)
        return node

    def broker_state(self, node_id: int) -> BrokerState | None:
        return self._brokers[node_id] if node_id in self._brokers else self.view.broker(node_id).state

    def put_partition(self, key: PartitionKey, state: PartitionState, *, even_if_same: bool = False) -> None:
        """The partition is in the view."""
        node, topic_id = self.view.partition(key), self.view.topic_id(key.topic)
        assert node is not None and topic_id is not None
        if state == self._partitions.get(key, node.state) and not even_if_same:
            return
        self._partitions[key] = state
        self._topic_ids[key] = topic_id
        path = partition_path(key.topic, key.partition)
        self._put(key, Replace(path, PARTITION.encode(state), node.version))

    def put_broker(self, node_id: int, state: BrokerState | None, *, live: bool = False) -> None:
        """`live`: from here on it may be elected. None: it is forgotten; its state is in the view."""
        self._brokers[node_id] = state
        path, before = broker_state_path(node_id), self.view.broker(node_id)
        if state is None:
            self._put(node_id, Remove(path, before.version))
        elif before.state is None:
            self._put(node_id, Create(path, BROKER_STATE.encode(state)))
        else:
            self._put(node_id, Replace(path, BROKER_STATE.encode(state), before.version))
        if live:
            self.electorate = self.electorate.admitting(node_id)

    def _put(self, key: PartitionKey | int, change: Change) -> None:
        before = self._changes.get(key)
        self._bytes += _size(change) - (0 if before is None else _size(before))
        self._changes[key] = change

    @property
    def changes(self) -> tuple[Change, ...]:
        return (Check(CONTROLLER_EPOCH, self.view.controller_epoch_version), *self._changes.values())

    def apply(self, versions: Sequence[int]) -> Publish:
        """The commit has succeeded, with these versions of `changes`: to the view."""
        partitions, brokers = [], []
        for key, version in zip(self._changes, versions[1:], strict=True):
            if isinstance(key, int):
                brokers.append(self._take_broker(key, self._brokers[key], version))
            # A topic that was removed or made anew meanwhile is left out: the view knows better.
            elif self.view.topic_id(key.topic) == self._topic_ids[key] and self.view.partition(key) is not None:
                partitions.append(self._take_partition(key, PartitionNode(self._partitions[key], version)))
        return Publish(tuple(partitions), tuple(brokers))

    def learn(self, nodes: Mapping[str, Node | None]) -> Publish | None:
        """The commit met a conflict, and this is what is there: to the view. None: nothing that explains it."""
        partitions, brokers, is_explained = [], [], False
        for key, change in self._changes.items():
            node = nodes[change.path]
            if isinstance(key, int):
                before = self.view.broker(key)
                state = None if node is None else BROKER_STATE.decode(node.data, change.path)
                version = 0 if node is None else node.version
                if (state, version) != (before.state, before.version):
                    brokers.append(self._take_broker(key, state, version))
                continue
            known = self.view.partition(key)
            if known is None or self.view.topic_id(key.topic) != self._topic_ids[key]:
                is_explained = True
            elif node is None:
                # Its topic is being removed.
                self.view.remove_partition(key)
                is_explained = True
            elif node.version > known.version:
                read = PartitionNode(PARTITION.decode(node.data, change.path), node.version)
                partitions.append(self._take_partition(key, read))
        if partitions or brokers or is_explained:
            return Publish(tuple(partitions), tuple(brokers))
        return None

    def _take_partition(self, key: PartitionKey, node: PartitionNode) -> PublishedPartition:
        self.view.put_partition(key, node)
        return PublishedPartition(key, self._topic_ids[key], node)

    def _take_broker(self, node_id: int, state: BrokerState | None, version: int) -> PublishedBroker:
        self.view.put_broker_state(node_id, state, version)
        return PublishedBroker(node_id, state, version)


def _size(change: Change) -> int:
    data = change.data if isinstance(change, Create | Replace) else b""
    return len(change.path) + len(data) + CHANGE_OVERHEAD_BYTES
