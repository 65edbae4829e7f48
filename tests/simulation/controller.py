"""The controller's core on one of the brokers: the store's answers in, transactions and messages out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.simulation.network import OnAnswer
from tests.simulation.store import KEY, TOPIC, TOPIC_ID, Conflict
from tests.simulation.store import Committed as StoreCommitted

from penstock.cluster.core.controller import Controller
from penstock.cluster.core.effects import Answer, AskLogEnds, Commit, Effect, Publish, Reload, Resign
from penstock.cluster.core.election import LogEnd, TopicSettings
from penstock.cluster.core.events import (
    BrokerFoundDead,
    BrokerGone,
    BrokerRegistered,
    Committed,
    Conflicted,
    Event,
    LogEnds,
    Request,
    Tick,
    TopicChanged,
    TopicConfigured,
)
from penstock.cluster.core.preferred import PreferredLeaderOptions
from penstock.cluster.core.view import PartitionNode, TopicView, View
from penstock.coordination.interface import Change, Check, Create, Node, Replace
from penstock.coordination.paths import (
    BROKER_STATE,
    BROKER_STATES,
    CONTROLLER,
    CONTROLLER_EPOCH,
    CONTROLLER_EPOCH_STATE,
    CONTROLLER_STATE,
    PARTITION,
    REGISTRATION,
    REGISTRATIONS,
    TOPICS,
    ControllerEpoch,
    ControllerState,
    partition_path,
    registration_path,
)
from penstock.replication.core.in_sync import Altered

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

LOG_END_TIMEOUT_MS = 500


class ControllerHost:
    """Lasts until it resigns, its broker dies or loses its session."""

    def __init__(self, broker: Broker, epoch_version: int) -> None:
        self._broker = broker
        setup = broker.setup
        options = PreferredLeaderOptions(setup.prefers_leaders, check_interval_ms=1000, after_ms=1500)
        self._core = Controller(epoch_version, options)
        self._requests: dict[int, OnAnswer] = {}
        self._request_count = 0
        self._is_loading = self._is_looking = False
        self._has_view = False
        # What was read before is older than what was loaded.
        self._loads = 0
        broker.controller = self
        self._load()

    @property
    def is_current(self) -> bool:
        return self._broker.controller is self

    @property
    def _settings(self) -> TopicSettings:
        return TopicSettings(self._broker.store.min_isr, not self._broker.setup.acked)

    # The store

    def _load(self) -> None:
        self._is_loading = True
        paths = (CONTROLLER_EPOCH, REGISTRATIONS, BROKER_STATES, f"{TOPICS}/{TOPIC}")
        self._ask_store(paths, self._on_loaded)

    def _ask_store(self, paths: tuple[str, ...], on_answer: OnAnswer) -> None:
        store = self._broker.store
        self._broker.network.ask(self._broker, store, store.read_below, paths, on_answer, 700)

    def _on_loaded(self, nodes: dict[str, Node] | None) -> None:
        if not self.is_current:
            return
        self._is_loading = False
        self._loads += 1
        if nodes is None:
            self._has_view = False
            return
        self._has_view = True
        view = self._view(nodes)
        self._carry_out(self._core.start(view, self._broker.network.now_ms))

    def _view(self, nodes: dict[str, Node]) -> View:
        view = View(nodes[CONTROLLER_EPOCH].version)
        for node_id in self._broker.peers:
            registered, state = nodes.get(registration_path(node_id)), nodes.get(f"{BROKER_STATES}/{node_id}")
            if state is not None:
                view.put_broker_state(node_id, BROKER_STATE.decode(state.data, ""), state.version)
            if registered is not None:
                view.register(node_id, registered.created, REGISTRATION.decode(registered.data, ""))
        partition = nodes.get(partition_path(*KEY))
        if partition is not None:
            node = PartitionNode(PARTITION.decode(partition.data, ""), partition.version)
            view.put_topic(TopicView(TOPIC, TOPIC_ID, self._settings, {0: node}))
        return view

    def tick(self) -> None:
        if self._is_loading:
            return
        if not self._has_view:
            self._load()
            return
        deadline_ms = self._core.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self._broker.network.now_ms:
            self.tell(Tick())
        self.look()

    def look(self) -> None:
        """At the registrations, which may have changed."""
        if not self._is_looking:
            self._is_looking = True
            loads = self._loads
            self._ask_store((REGISTRATIONS,), lambda nodes: self._on_registrations(nodes, loads))

    def _on_registrations(self, nodes: dict[str, Node] | None, loads: int) -> None:
        self._is_looking = False
        if nodes is None or not self.is_current or not self._has_view or self._is_loading or loads != self._loads:
            return
        for node_id in self._broker.peers:
            node, known = nodes.get(registration_path(node_id)), self._core.view.broker(node_id)
            if node is None and known.registration is not None:
                self.tell(BrokerGone(node_id, known.broker_epoch))
            elif node is not None and node.created != known.broker_epoch:
                self.tell(BrokerRegistered(node_id, node.created, REGISTRATION.decode(node.data, "")))

    # Events

    def tell(self, event: Event) -> None:
        if self.is_current:
            self._carry_out(self._core.step(event, self._broker.network.now_ms))

    def topic_created(self) -> None:
        state, version = self._broker.store.partition(*KEY)
        node = PartitionNode(state, version)
        self.tell(TopicChanged(TopicView(TOPIC, TOPIC_ID, self._settings, {0: node})))

    def topic_configured(self) -> None:
        self.tell(TopicConfigured(TOPIC, self._settings))

    def found_dead(self, node_id: int) -> None:
        known = self._core.view.broker(node_id)
        if known.registration is not None:
            self.tell(BrokerFoundDead(node_id, known.broker_epoch))

    def request(self, request: Request, reply: OnAnswer) -> None:
        """Answered with Altered, or the problem; None stands for success without a partition."""
        self._request_count += 1
        self._requests[self._request_count] = reply
        self.tell(replace(request, request_id=self._request_count))

    # Effects

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Commit():
                    self._commit(effect)
                case Publish():
                    for peer in self._broker.peers.values():
                        self._broker.network.send(self._broker, peer, peer.on_publish, effect)
                case Answer():
                    self._answer(effect)
                case AskLogEnds():
                    self._ask_log_ends(effect)
                case Reload():
                    self._load()
                case Resign():
                    self._broker.controller = None

    def _commit(self, commit: Commit) -> None:
        def done(answer: Any) -> None:
            if not self.is_current:
                return
            if isinstance(answer, StoreCommitted):
                self.tell(Committed(commit.commit_id, answer.versions))
            elif isinstance(answer, Conflict):
                self.tell(Conflicted(commit.commit_id, answer.nodes))
            else:
                self._load()

        self._broker.commit(list(commit.changes), done)

    def _answer(self, answer: Answer) -> None:
        reply = self._requests.pop(answer.request_id, None)
        if reply is None:
            return
        if answer.refusal is not None:
            reply(answer.refusal.problem)
            return
        for row in answer.rows:
            if row.refusal is not None:
                reply(row.refusal.problem)
            elif row.node is not None:
                reply(Altered(row.node.state, row.node.version))
            return
        reply(None)

    def _ask_log_ends(self, question: AskLogEnds) -> None:
        ends: dict[int, tuple[int, LogEnd]] = {}
        left = len(question.brokers)

        def hear(node_id: int) -> OnAnswer:
            def heard(answer: Any) -> None:
                nonlocal left
                left -= 1
                if answer is not None:
                    ends[node_id] = (answer[0], LogEnd(*answer[1]))
                if not left:
                    self.tell(LogEnds(question.partition, ends))

            return heard

        for node_id, broker_epoch in question.brokers.items():
            peer = self._broker.peers[node_id]
            self._broker.network.ask(self._broker, peer, peer.log_end, broker_epoch, hear(node_id), LOG_END_TIMEOUT_MS)


def stand_for_controller(broker: Broker, controller: Node | None, epoch: Node) -> None:
    """If there is none, or the store has this broker's session down for it and it does not know how that came."""
    if broker.controller is not None or broker.is_standing or broker.broker_epoch is None:
        return
    if controller is not None and controller.owner != broker.session_id:
        return
    broker.is_standing = True
    state = CONTROLLER_STATE.encode(ControllerState(broker.name, broker.broker_epoch))
    first: Change = Create(CONTROLLER, state, True) if controller is None else Check(CONTROLLER, controller.version)
    number = CONTROLLER_EPOCH_STATE.encode(ControllerEpoch(epoch.version + 1))

    def done(answer: Any) -> None:
        broker.is_standing = False
        if isinstance(answer, StoreCommitted):
            ControllerHost(broker, answer.versions[1])

    broker.commit([first, Replace(CONTROLLER_EPOCH, number, epoch.version)], done)
