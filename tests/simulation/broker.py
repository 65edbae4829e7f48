"""A broker: its log, its replica, and a controller if it is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tests.simulation import reading
from tests.simulation.controller import ControllerHost, stand_for_controller
from tests.simulation.log import SimulatedLog
from tests.simulation.member import Member
from tests.simulation.network import Network, OnAnswer
from tests.simulation.reading import Consume
from tests.simulation.replica import Produce, Replica
from tests.simulation.store import TOPIC_ID, Store

from penstock.cluster.core.events import AlterPartition, BrokerStopping, IsrChange, IsrMember
from penstock.coordination.interface import Node
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem
from penstock.replication.core.in_sync import Altered, Proposal, answer_of
from penstock.replication.core.leadership import FollowerFetch
from penstock.replication.core.replica_log import last_epoch

if TYPE_CHECKING:
    from tests.simulation.history import History

PROPOSAL_TIMEOUT_MS = 800


class Setup(NamedTuple):
    """Of the topic and the cluster, for one run."""

    brokers: int
    acked: bool
    min_isr: int
    prefers_leaders: bool
    max_messages: int | None


class Broker(Member):
    def __init__(self, node_id: int, network: Network, store: Store, history: History, setup: Setup) -> None:
        super().__init__(node_id, network, store)
        self.setup = setup
        self.history = history
        self.peers: Mapping[int, Broker] = {}
        self.log = SimulatedLog()
        # How long a sync takes at most
        self.sync_ms = 10
        self.is_standing = False
        self.controller: ControllerHost | None = None
        self.replica = Replica(self, self.log)
        # Something may go wrong just then: how much longer the proposal takes.
        self.on_proposal: Callable[[Broker, Proposal], int] = lambda broker, proposal: 0

    # Life and death

    def start(self) -> None:
        super().start()
        self.is_standing = False
        self.controller = None
        if self.setup.acked:
            # What it shows is on its disk; with flush.policy=os a sync comes later.
            self.log.sync(self.log.end_offset)
        self.replica = Replica(self, self.log)
        self.replica.sync()

    def kill(self) -> None:
        """kill -9: what was written stays, unless the power goes before the system has written it to the disk."""
        self.die()
        self.log.recover(None)

    def cut_power(self, *, wipe: bool = False) -> None:
        """What was not synced may be gone; `wipe`: everything."""
        self.die()
        self.history.loses_power(self)
        if wipe:
            self.log = SimulatedLog()
            self.directory_id = UUID(int=self.directory_id.int + 1)
            self.history.wiped(self)
        else:
            self.log.recover(self.network.random)

    def cut_power_while_down(self) -> None:
        if self.log.durable_offset < self.log.end_offset:
            self.history.loses_power(self)
            self.log.recover(self.network.random)

    def stop(self) -> None:
        """SIGTERM, after what could be handed over was handed over."""
        self.die()
        self.log.recover(None)
        self.log.sync(self.log.end_offset)
        self.stopped_cleanly = self.is_clean

    def on_life_ended(self) -> None:
        self.replica.resign()
        self.controller = None

    # What it learns

    def on_tick(self) -> None:
        self.replica.tick()
        if self.controller is not None:
            self.controller.tick()

    def on_controller(self, controller: Node | None, epoch: Node) -> None:
        stand_for_controller(self, controller, epoch)

    def on_partition(self, state: PartitionState, version: int) -> None:
        self.replica.learn(state, version, may_lead=self.may_lead)

    # Requests

    def propose(self, replica: Replica, proposal: Proposal) -> None:
        leading, target = replica.leading, self.peers.get(self.controller_id or -1)
        assert leading is not None

        def answered(answer: Any) -> None:
            if isinstance(answer, Altered):
                replica.on_proposal_answered(leading, proposal, answer)
            else:
                replica.on_proposal_answered(leading, proposal, answer_of(answer))

        if target is None or self.broker_epoch is None:
            self.network.after(PROPOSAL_TIMEOUT_MS, self, answered, None)
            return
        isr = tuple(IsrMember(*member) for member in proposal.isr)
        change = IsrChange(TOPIC_ID, 0, proposal.leader_epoch, proposal.version, isr, proposal.lost)
        request = AlterPartition(0, self.name, self.broker_epoch, (change,))
        held_ms = self.on_proposal(self, proposal)
        self.network.ask(self, target, target.on_request, request, answered, PROPOSAL_TIMEOUT_MS, held_ms=held_ms)

    def hand_over(self, on_answer: OnAnswer) -> None:
        """Controlled shutdown."""
        target = self.peers.get(self.controller_id or -1)
        if target is None or self.broker_epoch is None:
            on_answer(None)
            return
        request = BrokerStopping(0, self.name, self.broker_epoch)
        self.network.ask(self, target, target.on_request, request, on_answer, PROPOSAL_TIMEOUT_MS)

    def on_request(self, request: AlterPartition | BrokerStopping, reply: OnAnswer) -> None:
        """Answered with Altered, or the problem, or nothing but that it is done."""
        if self.controller is None:
            reply(Problem.NOT_CONTROLLER)
        else:
            self.controller.request(request, reply)

    def serve(self, fetch: FollowerFetch, reply: OnAnswer) -> None:
        self.replica.serve(fetch, reply)

    def produce(self, request: Produce, reply: OnAnswer) -> None:
        self.replica.produce(request, reply)

    def consume(self, request: Consume, reply: OnAnswer) -> None:
        reading.consume(self.replica, request, reply)

    def latest(self, leader_epoch: int, reply: OnAnswer) -> None:
        reading.latest(self.replica, leader_epoch, reply)

    def metadata(self, _: None, reply: OnAnswer) -> None:
        reply(self.replica.state)

    def log_end(self, broker_epoch: int, reply: OnAnswer) -> None:
        """For an election by log ends. From here on it follows nobody that it knows: the log stays as it was told."""
        if broker_epoch == self.broker_epoch and self.replica.leading is None:
            self.replica.stop_following()
            reply((broker_epoch, (last_epoch(self.log), self.log.end_offset)))
