"""A broker between store and controller: its session, its registration, and what it knows of all others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tests.simulation.network import Network, OnAnswer, Process
from tests.simulation.store import KEY, TOPIC, Conflict, Store

from penstock.cluster.core.effects import Publish
from penstock.coordination.interface import Change, Create, Node, Remove
from penstock.coordination.paths import (
    BROKER_STATE,
    BROKER_STATES,
    CONTROLLER,
    CONTROLLER_EPOCH,
    CONTROLLER_STATE,
    PARTITION,
    REGISTRATION,
    REGISTRATIONS,
    TOPICS,
    BrokerState,
    PartitionState,
    Registration,
    partition_path,
    registration_path,
)

TICK_MS = 150
READ_EVERY_TICKS = 5
STORE_TIMEOUT_MS = 700


class Member(Process):
    """Whatever it must do with what it learns is up to the broker: see the methods at the end."""

    def __init__(self, node_id: int, network: Network, store: Store) -> None:
        super().__init__(node_id)
        self.network = network
        self.store = store
        self.names: Iterable[int] = ()
        # On its disk
        self.directory_id = UUID(int=1000 * node_id)
        self.stopped_cleanly = True
        self.is_up = False
        self._forget()

    def _forget(self) -> None:
        self.session_id: int | None = None
        self.is_suspended = False
        self.broker_epoch: int | None = None
        # As long as no life of this process was admitted, what the one before lost is not settled, and no clean stop
        # settles it.
        self.is_clean = self.stopped_cleanly
        self._is_admitted = False
        # All partitions have been read since this broker knew that it was admitted: what they say is of this life.
        self.may_lead = False
        self.live: dict[int, int] = {}
        self._broker_versions: dict[int, int] = {}
        self.controller_id: int | None = None
        self._is_reading = self._is_committing = self._is_opening = False
        self._ticks = self._commits = 0

    def start(self) -> None:
        self._forget()
        self.is_up = True
        self.stopped_cleanly = False
        self.network.after(int(self.network.random.random() * TICK_MS), self, self._tick)

    # The session

    def _tick(self) -> None:
        self._ticks += 1
        if self.session_id is None:
            self._open_session()
        elif not self.store.can_hear(self):
            self.is_suspended = True
        elif not self.store.is_alive(self.session_id):
            self._lose_session()
        else:
            self.is_suspended = False
            if self.broker_epoch is None or self._ticks % READ_EVERY_TICKS == 0:
                self.read_soon()
        self.on_tick()
        self.network.after(TICK_MS, self, self._tick)

    def _open_session(self) -> None:
        if self._is_opening:
            return
        self._is_opening = True

        def opened(session_id: int | None) -> None:
            self._is_opening = False
            if session_id is not None:
                self.session_id = session_id
                self.read_soon()

        request = (self, self.life, self.read_soon)
        self.network.ask(self, self.store, self.store.open_session, request, opened, STORE_TIMEOUT_MS, once=True)

    def _lose_session(self) -> None:
        self.session_id = self.broker_epoch = None
        self._is_admitted = self.may_lead = self.is_suspended = False
        self.on_life_ended()

    def commit(self, changes: list[Change], on_answer: OnAnswer) -> None:
        """None when nobody knows what has become of it."""
        if self.session_id is None or self.is_suspended:
            self.network.after(1, self, on_answer, None)
            return
        self._commits += 1
        request = (self.session_id, self._commits, changes)
        self.network.ask(self, self.store, self.store.commit, request, on_answer, STORE_TIMEOUT_MS, once=True)

    def _register(self, stale: Node | None) -> None:
        if self._is_committing:
            return
        self._is_committing = True
        path = registration_path(self.name)
        registration = Registration("h", 1, f"m{self.name}", None, self.directory_id, self.is_clean)
        changes: list[Change] = [] if stale is None else [Remove(path, stale.version)]

        def done(answer: Any) -> None:
            self._is_committing = False
            if answer is not None and not isinstance(answer, Conflict):
                self.read_soon()

        self.commit([*changes, Create(path, REGISTRATION.encode(registration), ephemeral=True)], done)

    # What it knows

    def read_soon(self) -> None:
        if self._is_reading or self.session_id is None or self.is_suspended:
            return
        self._is_reading = True
        self._ask_store((REGISTRATIONS, BROKER_STATES, CONTROLLER, CONTROLLER_EPOCH), self._on_brokers_read)

    def _ask_store(self, paths: tuple[str, ...], on_answer: OnAnswer) -> None:
        self.network.ask(self, self.store, self.store.read_below, paths, on_answer, STORE_TIMEOUT_MS)

    def _on_brokers_read(self, nodes: dict[str, Node] | None) -> None:
        if nodes is None or self.session_id is None:
            self._is_reading = False
            return
        live = {}
        for peer in self.names:
            registered, state = nodes.get(registration_path(peer)), nodes.get(f"{BROKER_STATES}/{peer}")
            if registered is not None and state is not None:
                known = BROKER_STATE.decode(state.data, BROKER_STATES)
                if known.admitted_epoch == registered.created > known.fenced_epoch:
                    live[peer] = registered.created
                self._broker_versions[peer] = state.version
        self.live.clear()
        self.live.update(live)
        own = nodes.get(registration_path(self.name))
        if own is None or own.owner != self.session_id:
            self._register(own)
        elif self.broker_epoch != own.created:
            self._live_as(own.created)
        self._note_admission()
        controller = nodes.get(CONTROLLER)
        self.controller_id = None if controller is None else CONTROLLER_STATE.decode(controller.data, CONTROLLER).broker
        self.on_controller(controller, nodes[CONTROLLER_EPOCH])
        admitted = self._is_admitted
        path = f"{TOPICS}/{TOPIC}"
        self._ask_store((path,), lambda answer: self._on_partitions_read(answer, admitted))

    def _live_as(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self._is_admitted = self.may_lead = False
        self.on_life_ended()

    def _note_admission(self) -> None:
        if self.broker_epoch is not None and self.live.get(self.name) == self.broker_epoch:
            self._is_admitted = self.is_clean = True

    def _on_partitions_read(self, nodes: dict[str, Node] | None, admitted: bool) -> None:
        self._is_reading = False
        if nodes is None or self.session_id is None:
            return
        if admitted and self._is_admitted:
            self.may_lead = True
        path = partition_path(*KEY)
        node = nodes.get(path)
        if node is not None:
            self.on_partition(PARTITION.decode(node.data, path), node.version)
        if self._is_admitted and not self.may_lead:
            self.read_soon()

    def on_publish(self, publish: Publish) -> None:
        for published in publish.brokers:
            if published.version > self._broker_versions.get(published.node_id, -1):
                self._broker_versions[published.node_id] = published.version
                self._heed_broker(published.node_id, published.state)
        for partition in publish.partitions:
            self.on_partition(partition.node.state, partition.node.version)

    def _heed_broker(self, node_id: int, state: BrokerState | None) -> None:
        if state is None or state.admitted_epoch <= state.fenced_epoch:
            self.live.pop(node_id, None)
        else:
            self.live[node_id] = state.admitted_epoch
        if node_id == self.name and not self._is_admitted:
            self.read_soon()

    # What follows from it

    def on_tick(self) -> None: ...

    def on_life_ended(self) -> None:
        """It leads nothing any more, because it is not registered or anew."""

    def on_controller(self, controller: Node | None, epoch: Node) -> None: ...

    def on_partition(self, state: PartitionState, version: int) -> None: ...
