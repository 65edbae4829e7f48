"""A store in memory for tests of the controller: nodes with versions, transactions that are checked, a controller."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from penstock.cluster.core.controller import Controller
from penstock.cluster.core.effects import Answer, AskLogEnds, Commit, Effect, Publish, Reload, Resign
from penstock.cluster.core.election import Electorate, TopicSettings, new_partition
from penstock.cluster.core.events import BrokerGone, BrokerRegistered, Committed, Conflicted, Event, TopicChanged
from penstock.cluster.core.preferred import PreferredLeaderOptions
from penstock.cluster.core.view import PartitionKey, PartitionNode, TopicView, View
from penstock.coordination.interface import Change, Check, Create, Node, Remove, Replace
from penstock.coordination.paths import (
    BROKER_STATE,
    BROKER_STATES,
    CONTROLLER_EPOCH,
    PARTITION,
    BrokerState,
    PartitionState,
    Registration,
    partition_path,
)


def registration(
    directory: int, clean: bool = True, unsynced: bool = False, unsynced_topics: tuple[UUID, ...] = ()
) -> Registration:
    return Registration("localhost", 9092, "machine", None, UUID(int=directory), clean, unsynced, unsynced_topics)


class StoreModel:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {CONTROLLER_EPOCH: Node(b"", 0)}
        self.registrations: dict[int, tuple[int, Registration]] = {}
        self.topics: dict[str, tuple[UUID, TopicSettings]] = {}
        # Topics with garbage in a node.
        self.garbage: set[str] = set()
        self._epochs = 0

    def register(
        self,
        node_id: int,
        directory: int | None = None,
        clean: bool = True,
        unsynced: bool = False,
        unsynced_topics: tuple[UUID, ...] = (),
    ) -> BrokerRegistered:
        self._epochs += 1
        row = registration(node_id if directory is None else directory, clean, unsynced, unsynced_topics)
        self.registrations[node_id] = (self._epochs, row)
        return BrokerRegistered(node_id, self._epochs, row)

    def lose(self, node_id: int) -> BrokerGone:
        broker_epoch, _ = self.registrations.pop(node_id)
        return BrokerGone(node_id, broker_epoch)

    def epoch(self, node_id: int) -> int:
        return self.registrations[node_id][0]

    def create_topic(self, name: str, settings: TopicSettings, *replicas: tuple[int, ...]) -> TopicChanged:
        """All of its replicas are taken for live."""
        self.topics[name] = (UUID(int=len(self.topics) + 1), settings)
        for number, row in enumerate(replicas):
            state = new_partition(row, Electorate(set(row)), settings)
            assert state is not None
            self.nodes[partition_path(name, number)] = Node(PARTITION.encode(state), 0)
        return TopicChanged(self.topic(name))

    def topic(self, name: str) -> TopicView:
        prefix = f"/topics/{name}/"
        numbers = [int(path.removeprefix(prefix)) for path in self.nodes if path.startswith(prefix)]
        topic_id, settings = self.topics[name]
        return TopicView(name, topic_id, settings, {n: self.partition(name, n) for n in sorted(numbers)})

    def partition(self, topic: str, number: int = 0) -> PartitionNode:
        node = self.nodes[partition_path(topic, number)]
        return PartitionNode(PARTITION.decode(node.data, ""), node.version)

    def state(self, topic: str, number: int = 0) -> PartitionState:
        return self.partition(topic, number).state

    def broker_states(self) -> dict[int, tuple[BrokerState, int]]:
        prefix = f"{BROKER_STATES}/"
        return {
            int(path.removeprefix(prefix)): (BROKER_STATE.decode(node.data, path), node.version)
            for path, node in self.nodes.items()
            if path.startswith(prefix)
        }

    def is_admitted(self, node_id: int) -> bool:
        if node_id not in self.registrations or node_id not in self.broker_states():
            return False
        return self.broker_states()[node_id][0].admitted_epoch == self.epoch(node_id)

    def view(self) -> View:
        view = View(self.nodes[CONTROLLER_EPOCH].version)
        for node_id, (state, version) in self.broker_states().items():
            view.put_broker_state(node_id, state, version)
        for node_id, (broker_epoch, row) in self.registrations.items():
            view.register(node_id, broker_epoch, row)
        for name in [name for name in self.topics if name not in self.garbage]:
            view.put_topic(self.topic(name))
        view.is_complete = not self.garbage
        return view

    def commit(self, changes: Sequence[Change]) -> list[int] | None:
        """None: a conflict."""
        after, versions = dict(self.nodes), []
        for change in changes:
            node = after.get(change.path)
            if (node is None) != isinstance(change, Create):
                return None
            if node is not None and not isinstance(change, Create) and node.version != change.version:
                return None
            version = 0 if node is None else node.version
            match change:
                case Create(path, data):
                    after[path] = Node(data, 0)
                case Replace(path, data, _):
                    version += 1
                    after[path] = Node(data, version)
                case Remove(path, _):
                    del after[path]
                case Check():
                    pass
            versions.append(version)
        self.nodes = after
        return versions


class ControlledStore(StoreModel):
    """With a controller whose transactions are carried out at once."""

    def __init__(self, preferred: PreferredLeaderOptions | None = None) -> None:
        super().__init__()
        self.controller = Controller(0, preferred)
        self.now_ms = 0
        self.answers: dict[int, Answer] = {}
        self.questions: list[AskLogEnds] = []
        self.published: list[Publish] = []
        self.commits: list[Commit] = []
        self.has_resigned = False

    def start(self) -> None:
        self.carry_out(self.controller.start(self.view(), self.now_ms))

    def tell(self, *events: Event) -> None:
        for event in events:
            self.carry_out(self.controller.step(event, self.now_ms))

    def carry_out(self, effects: list[Effect]) -> None:
        queue = list(effects)
        while queue:
            match queue.pop(0):
                case Commit() as commit:
                    self.commits.append(commit)
                    queue += self.controller.step(self.outcome(commit), self.now_ms)
                case Answer() as answer:
                    assert answer.request_id not in self.answers
                    self.answers[answer.request_id] = answer
                case AskLogEnds() as question:
                    self.questions.append(question)
                case Publish() as publish:
                    self.published.append(publish)
                case Reload():
                    queue += self.controller.start(self.view(), self.now_ms)
                case Resign():
                    self.has_resigned = True

    def outcome(self, commit: Commit) -> Committed | Conflicted:
        versions = self.commit(commit.changes)
        if versions is not None:
            return Committed(commit.commit_id, versions)
        return Conflicted(commit.commit_id, {change.path: self.nodes.get(change.path) for change in commit.changes})


def key(topic: str, number: int = 0) -> PartitionKey:
    return PartitionKey(topic, number)
