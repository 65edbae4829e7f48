"""Brokers, a store and a controller in one model, with what was committed: nobody may lead who lacks any of it.

The log of a partition is the number of records that were ever committed, and of each replica how many of them it has.
Brokers follow the rules of leaders: they commit with everyone who may be in the ISR as far as they know, and only while
the recorded ISR is large enough. They may know an old state, or have been replaced without noticing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.cluster.store_model import StoreModel

from penstock.cluster.core.controller import Controller
from penstock.cluster.core.effects import Answer, AskLogEnds, Commit, Effect, Reload, Resign
from penstock.cluster.core.election import LogEnd, TopicSettings
from penstock.cluster.core.events import (
    AlterPartition,
    Committed,
    Conflicted,
    Event,
    IsrChange,
    IsrMember,
    LogEnds,
    Request,
    TopicChanged,
)
from penstock.cluster.core.preferred import PreferredLeaderOptions
from penstock.cluster.core.view import PartitionNode
from penstock.coordination.interface import Change, Check, Node, Replace
from penstock.coordination.paths import CONTROLLER_EPOCH, NO_EPOCH, NO_LEADER, PARTITION, PartitionState

# Less than one admission needs: several transactions for it are the rule here.
SMALL_TRANSACTION = 500


@dataclass
class Process:
    """A broker's process; `life` counts them."""

    directory: int
    is_alive: bool = False
    life: int = 0
    # It ended unsynced, and was not admitted since.
    is_doubtful: bool = False


@dataclass
class Log:
    """Of one partition. What each replica has of the committed records, and the leader epoch that it follows."""

    committed: int = 0
    held: dict[int, int] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)
    history: list[PartitionNode] = field(default_factory=list)
    # By leader epoch, the life of its leader that was admitted while it was the newest: no other may lead in it.
    led: dict[int, int] = field(default_factory=dict)
    # By leader epoch, the step in which it began.
    began: dict[int, int] = field(default_factory=dict)
    # The state that the leader knows, and by version those whom a leader that knew it asked for.
    known: PartitionNode | None = None
    asked: dict[int, set[int]] = field(default_factory=dict)


class ReplicatedWorld(StoreModel):
    def __init__(self, brokers: int) -> None:
        super().__init__()
        self.processes = {node_id: Process(node_id) for node_id in range(brokers)}
        self.registered_at: dict[int, int] = {}
        self.logs: dict[str, Log] = {}
        self.step = 0
        self.requests = 0
        self.answers: dict[int, Answer] = {}
        # Requests of which this controller was told.
        self.asked: set[int] = set()
        # What the controller has not been told yet: by the store, and by requests, which come another way.
        self.untold: list[Event] = []
        self.posted: list[Request] = []
        self.in_flight: Commit | None = None
        self.must_reload = False
        self.begin_controller()

    def begin_controller(self) -> None:
        """Another one, while the old one does not know of it yet."""
        old_commit = self.in_flight
        version = self.nodes[CONTROLLER_EPOCH].version + 1
        self.nodes[CONTROLLER_EPOCH] = Node(b"", version)
        self.in_flight = None
        self.must_reload = False
        self.untold.clear()
        self.posted.clear()
        self.asked.clear()
        preferred = PreferredLeaderOptions(check_interval_ms=3, after_ms=5)
        self.controller = Controller(version, preferred, SMALL_TRANSACTION)
        self.carry_out(self.controller.start(self.view(), self.step))
        if old_commit is not None:
            assert self.commit(old_commit.changes) is None, "a replaced controller changed something"

    # The controller and its store

    def tell_next(self, *, requests_first: bool = False) -> None:
        if self.must_reload:
            return
        if self.posted and (requests_first or not self.untold):
            request = self.posted.pop(0)
            self.asked.add(request.request_id)
            self.carry_out(self.controller.step(request, self.step))
        elif self.untold:
            self.carry_out(self.controller.step(self.untold.pop(0), self.step))

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Commit():
                    assert self.in_flight is None
                    assert isinstance(effect.changes[0], Check) and effect.changes[0].path == CONTROLLER_EPOCH
                    assert len({change.path for change in effect.changes}) == len(effect.changes)
                    self.in_flight = effect
                case Answer():
                    assert effect.request_id not in self.answers
                    self.answers[effect.request_id] = effect
                case AskLogEnds(partition, brokers):
                    held = self.logs[partition.topic].held
                    ends = {b: (epoch, LogEnd(0, held.get(b, 0))) for b, epoch in brokers.items()}
                    self.untold.append(LogEnds(partition, ends))
                case Resign():
                    raise AssertionError("resigned without another controller")
                case Reload():
                    raise AssertionError("a conflict without a reason")

    def finish_commit(self, *, is_known: bool = True, is_done: bool = True) -> None:
        """`is_known` False: the controller does not hear what became of it."""
        commit, self.in_flight = self.in_flight, None
        if commit is None:
            return
        versions = self.commit(commit.changes) if is_done else None
        if not is_known:
            self.must_reload = True
        elif versions is not None:
            self.carry_out(self.controller.step(Committed(commit.commit_id, versions), self.step))
        else:
            nodes = {change.path: self.nodes.get(change.path) for change in commit.changes}
            self.carry_out(self.controller.step(Conflicted(commit.commit_id, nodes), self.step))

    def reload(self) -> None:
        self.must_reload = False
        self.untold.clear()
        self.carry_out(self.controller.start(self.view(), self.step))

    def commit(self, changes: Sequence[Change]) -> list[int] | None:
        before = dict(self.nodes)
        versions = super().commit(changes)
        if versions is not None:
            for change in changes:
                if isinstance(change, Replace) and change.path.startswith("/topics/"):
                    topic = change.path.split("/")[2]
                    self._see(topic, PARTITION.decode(before[change.path].data, ""), self.partition(topic))
        self._accept_losses()
        for node_id, process in self.processes.items():
            process.is_doubtful = process.is_doubtful and not self.is_admitted(node_id)
        return versions

    def _see(self, topic: str, before: PartitionState, after: PartitionNode) -> None:
        state, log = after.state, self.logs[topic]
        log.history.append(after)
        assert state.leader in state.isr or (state.leader == NO_LEADER and state.isr == ())
        members = [*state.isr, *state.eligible_leaders, *state.last_known_eligible_leaders]
        assert len(set(members)) == len(members) and set(members) <= set(state.replicas)
        assert set(state.adding) | set(state.removing) <= set(state.replicas)
        assert len(state.isr) < state.min_insync_replicas or not state.eligible_leaders
        assert state.leader_epoch >= before.leader_epoch
        assert state.leader == before.leader or state.leader_epoch > before.leader_epoch
        if state.leader_epoch > before.leader_epoch:
            log.began[state.leader_epoch] = self.step
        settings = self.topics[topic][1]
        sure = {*before.isr, *before.eligible_leaders}
        if not sure and state.leader != NO_LEADER and not settings.unclean_leader_election:
            candidates = before.last_known_eligible_leaders
            assert log.held[state.leader] == max(log.held[candidate] for candidate in candidates), "another has more"
        elif not settings.unclean_leader_election and not settings.acknowledges_unsynced:
            # With the change of the ISR that lets someone in a reassignment may end, or a leader stop.
            joined = log.asked.get(after.version - 1, set())
            assert state.leader in {NO_LEADER, *sure, *joined}, "elected from nowhere"

    def _accept_losses(self) -> None:
        """Where the settings say that something may be lost, whoever leads has what was committed, by definition."""
        for topic, log in self.logs.items():
            state, (_, settings) = self.state(topic), self.topics[topic]
            is_new = state.leader_epoch not in log.led and state.leader != NO_LEADER
            if is_new and self.is_admitted(state.leader):
                log.led[state.leader_epoch] = self.processes[state.leader].life
                if settings.unclean_leader_election or settings.acknowledges_unsynced:
                    log.committed = log.held[state.leader]
                    log.held = {replica: min(held, log.committed) for replica, held in log.held.items()}

    # The brokers

    def add_topic(self, name: str, settings: TopicSettings, replicas: tuple[int, ...]) -> TopicChanged:
        self.logs[name] = Log(held=dict.fromkeys(self.processes, 0), began={0: self.step})
        event = self.create_topic(name, settings, replicas)
        self.logs[name].history.append(self.partition(name))
        self._accept_losses()
        return event

    def start_process(self, node_id: int, *, wiped: bool, lost: int = 0) -> None:
        """With a registration that replaces an old one, if that is still there. `lost`: records not synced before."""
        process = self.processes[node_id]
        for topic, log in self.logs.items():
            if self.topics[topic][1].acknowledges_unsynced and process.is_doubtful:
                log.held[node_id] = max(0, log.held[node_id] - lost)
        if wiped:
            process.directory += 100
            for log in self.logs.values():
                log.held[node_id] = 0
                log.heard.pop(node_id, None)
        process.is_alive, process.life = True, process.life + 1
        self.announce(node_id)

    def announce(self, node_id: int) -> None:
        self.registered_at[node_id] = self.step
        process = self.processes[node_id]
        self.untold.append(self.register(node_id, process.directory, not process.is_doubtful))

    def alter(self, topic: str, members: set[int], leader_epoch_lag: int = 0, *, resigns: bool = False) -> None:
        """As the leader of the newest epoch asks for it, knowing what it knows. Who joins has all that it has.

        `resigns`: its log has failed.
        """
        log = self.logs[topic]
        node = self.known(topic)
        leader = node.state.leader
        if leader == NO_LEADER or not self.may_lead(topic, node) or leader not in self.registrations:
            return
        joining = {m for m in members - set(node.state.isr) if self.processes[m].is_alive and m in self.registrations}
        joining = {m for m in joining if log.heard.get(m, -1) <= node.state.leader_epoch}
        for member in joining:
            log.held[member] = log.held[leader]
            log.heard[member] = node.state.leader_epoch
        log.asked.setdefault(node.version, set()).update(joining)
        wanted = {leader, *joining, *(members & set(node.state.isr))}
        wanted -= {leader} if resigns else set()
        isr = [IsrMember(m, self.epoch(m) if m in joining else NO_EPOCH) for m in sorted(wanted)]
        change = IsrChange(
            self.topics[topic][0], 0, node.state.leader_epoch - leader_epoch_lag, node.version, tuple(isr)
        )
        self.requests += 1
        self.posted.append(AlterPartition(self.requests, leader, self.epoch(leader), (change,)))

    def hear(self, topic: str) -> None:
        """The leader of the newest epoch learns the newest state; with that all that it asked for is settled."""
        log, newest = self.logs[topic], self.partition(topic)
        if log.known is None or newest.version > log.known.version:
            log.known = newest

    def known(self, topic: str) -> PartitionNode:
        log = self.logs[topic]
        newest = self.partition(topic)
        if log.known is None or log.known.state.leader_epoch != newest.state.leader_epoch:
            self.hear(topic)
        assert log.known is not None
        return log.known

    def may_lead(self, topic: str, node: PartitionNode) -> bool:
        """Alive, and the epoch was given to this life of it."""
        process = self.processes[node.state.leader]
        return process.is_alive and self.logs[topic].led.get(node.state.leader_epoch) == process.life

    def produce(self, topic: str) -> None:
        """The leader commits a record, if it can by what it knows."""
        log, node = self.logs[topic], self.known(topic)
        if node.state.leader != NO_LEADER and self.may_lead(topic, node):
            self._commit_record(log, node)

    def produce_as_replaced(self, topic: str) -> None:
        """The leader before tries too; whoever follows the new one does not answer it any more.

        After an unclean election it may even succeed, alone: what it commits then is lost, as the setting says.
        """
        if self.topics[topic][1].unclean_leader_election:
            return
        log, newest = self.logs[topic], self.partition(topic)
        older = [n for n in log.history if n.state.leader_epoch < newest.state.leader_epoch]
        if older and older[-1].state.leader != NO_LEADER and self.may_lead(topic, older[-1]):
            self._commit_record(log, older[-1])

    def _commit_record(self, log: Log, node: PartitionNode) -> None:
        state = node.state
        if len(state.isr) < state.min_insync_replicas:
            return
        members = {*state.isr, *log.asked.get(node.version, ())}
        if all(self.processes[m].is_alive and log.heard.get(m, -1) <= state.leader_epoch for m in members):
            log.committed += 1
            for member in members:
                log.held[member] = log.committed
                log.heard[member] = state.leader_epoch

    # What must hold

    def check(self) -> None:
        states = {node_id: state for node_id, (state, _) in self.broker_states().items()}
        for topic, log in self.logs.items():
            state = self.state(topic)
            for member in {*state.isr, *state.eligible_leaders}:
                broker, process = states.get(member), self.processes[member]
                # Else the controller has not taken away yet what its new life may not keep.
                is_sure = broker is not None and broker.directory_id.int == process.directory
                if process.is_doubtful and self.topics[topic][1].acknowledges_unsynced:
                    is_sure = False
                if self.is_admitted(member) or is_sure:
                    assert log.held[member] == log.committed, f"{member} lacks something of {topic}"
                if self.is_admitted(member) and member == state.leader:
                    began = log.began[state.leader_epoch]
                    assert began >= self.registered_at[member], "a new life leads under an old epoch"
