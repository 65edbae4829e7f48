"""The coordination store: the real tree of nodes, with sessions, watches and a connection to each broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tests.simulation.network import Network, OnAnswer, Process

from penstock.cluster.core.view import PartitionKey
from penstock.coordination.core.tree import Draft, Tree
from penstock.coordination.interface import Change, Create, Node, Remove
from penstock.coordination.paths import (
    BROKER_STATE,
    BROKER_STATES,
    CONTROLLER,
    CONTROLLER_EPOCH,
    CONTROLLER_EPOCH_STATE,
    PARTITION,
    REGISTRATIONS,
    ControllerEpoch,
    PartitionState,
    partition_path,
    registration_path,
)
from penstock.errors import PenstockError

STORE = 0
SESSION_MS = 1000
CHECK_MS = 200
NO_SESSION = 0

TOPIC = "t"
TOPIC_ID = UUID(int=1)
KEY = PartitionKey(TOPIC, 0)


class Committed(NamedTuple):
    versions: list[int]


class Conflict(NamedTuple):
    nodes: dict[str, Node | None]


class Expired(NamedTuple):
    """This session is over."""


class Store(Process):
    """Never loses what it answered. A session lasts while its broker can be heard at least every SESSION_MS."""

    def __init__(self, network: Network) -> None:
        super().__init__(STORE)
        self._network = network
        self.tree = Tree()
        # Of the topic: what a controller reads with the partitions.
        self.min_isr = 1
        self._owners: dict[int, Process] = {}
        self._lives: dict[int, int] = {}
        self._heard_ms: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._sessions = NO_SESSION
        self._watchers: dict[int, Callable[[], None]] = {}
        self.on_partition: Callable[[PartitionState, int], None] = lambda state, version: None
        # With the life in which it had registered.
        self.on_admitted: Callable[[int, int], None] = lambda node_id, life: None
        for path in ("/topics", "/brokers", REGISTRATIONS, BROKER_STATES):
            self.put([Create(path, b"")])
        self.put([Create(CONTROLLER_EPOCH, CONTROLLER_EPOCH_STATE.encode(ControllerEpoch(0)))])
        network.after(CHECK_MS, self, self._check_sessions)

    def put(self, changes: Sequence[Change], session_id: int = NO_SESSION) -> list[int]:
        """At once. Raises PenstockError."""
        draft = Draft(self.tree, session_id)
        versions = draft.commit(changes)
        self.tree.apply(draft.writes)
        for path, data, version, *_ in draft.writes:
            if data is not None and path == partition_path(*KEY):
                self.on_partition(PARTITION.decode(data, path), version)
            elif data is not None and path.startswith(BROKER_STATES + "/"):
                self._tell_admission(int(path.rpartition("/")[2]), BROKER_STATE.decode(data, path).admitted_epoch)
            elif path.startswith(REGISTRATIONS) or path == CONTROLLER:
                self._tell_watchers()
        return versions

    def _tell_admission(self, node_id: int, broker_epoch: int) -> None:
        registered = self.tree.read(registration_path(node_id))
        if registered is not None and registered.created == broker_epoch and registered.owner in self._lives:
            self.on_admitted(node_id, self._lives[registered.owner])

    def partition(self, topic: str, number: int) -> tuple[PartitionState, int]:
        path = partition_path(topic, number)
        node = self.tree.read(path)
        assert node is not None
        return PARTITION.decode(node.data, path), node.version

    # Sessions

    def can_hear(self, process: Process) -> bool:
        cuts = self._network.cuts
        return (
            process.is_up
            and not process.is_paused
            and (process.name, STORE) not in cuts
            and (STORE, process.name) not in cuts
        )

    def is_alive(self, session_id: int) -> bool:
        return session_id in self._owners

    def expire(self, session_id: int) -> None:
        del self._owners[session_id], self._lives[session_id], self._heard_ms[session_id]
        self._watchers.pop(session_id, None)
        for path in self.tree.ephemeral_paths():
            node = self.tree.read(path)
            if node is not None and node.owner == session_id:
                self.put([Remove(path, node.version)])

    def session_of(self, process: Process) -> int | None:
        return next((session for session, owner in self._owners.items() if owner is process), None)

    def _check_sessions(self) -> None:
        now_ms = self._network.now_ms
        for session_id, owner in list(self._owners.items()):
            if owner.life == self._lives[session_id] and self.can_hear(owner):
                self._heard_ms[session_id] = now_ms
            elif now_ms - self._heard_ms[session_id] > SESSION_MS:
                self.expire(session_id)
        self._network.after(CHECK_MS, self, self._check_sessions)

    # Requests

    def open_session(self, request: tuple[Process, int, Callable[[], None]], reply: OnAnswer) -> None:
        owner, life, watcher = request
        self._sessions += 1
        self._owners[self._sessions] = owner
        self._lives[self._sessions] = life
        self._heard_ms[self._sessions] = self._network.now_ms
        self._done[self._sessions] = 0
        self._watchers[self._sessions] = watcher
        reply(self._sessions)

    def commit(self, request: tuple[int, int, Sequence[Change]], reply: OnAnswer) -> None:
        """Those of a session are carried out in the order of their numbers: who comes too late is not."""
        session_id, number, changes = request
        if session_id not in self._owners:
            reply(Expired())
            return
        if number <= self._done[session_id]:
            return
        self._done[session_id] = number
        answer: Any
        try:
            answer = Committed(self.put(changes, session_id))
        except PenstockError:
            answer = Conflict({change.path: self.tree.read(change.path) for change in changes})
        reply(answer)

    def read_below(self, request: tuple[str, ...], reply: OnAnswer) -> None:
        """The nodes of these paths and of all directly below them."""
        found: dict[str, Node] = {}
        for path in request:
            node = self.tree.read(path)
            if node is not None:
                found[path] = node
            for name in sorted(self.tree.child_names(path)):
                child = self.tree.read(f"{path}/{name}")
                if child is not None:
                    found[f"{path}/{name}"] = child
        reply(found)

    def _tell_watchers(self) -> None:
        for session_id, watcher in self._watchers.items():
            self._network.send(self, self._owners[session_id], watcher)
