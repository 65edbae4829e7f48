"""Random orders of events: nobody ever leads, or may be elected, who lacks something that was committed."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.cluster.replicated_world import ReplicatedWorld
from tests.cluster.store_model import key

from penstock.cluster.core.election import TopicSettings
from penstock.cluster.core.events import (
    AlterReassignments,
    BrokerFoundDead,
    BrokerStopping,
    ElectLeaders,
    ReassignmentWish,
    SetDraining,
    Tick,
    TopicConfigured,
    UnregisterBroker,
)
from penstock.coordination.paths import NO_LEADER

BROKERS = 4
nodes = st.integers(0, BROKERS - 1)
topics = st.sampled_from(["acked", "os", "unclean", "single"])


class ControllerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = ReplicatedWorld(BROKERS)
        self.stopping: set[tuple[int, int]] = set()
        self.pace = 1

    @initialize(
        replicas=st.permutations(range(BROKERS)), min_isr=st.integers(1, 3), pace=st.sampled_from([1, 1, 2, 3, 7])
    )
    def begin(self, replicas: list[int], min_isr: int, pace: int) -> None:
        """`pace`: after so many steps everything comes to rest."""
        world, self.pace = self.world, pace
        for node_id in range(BROKERS):
            world.start_process(node_id, wiped=False)
        self.settle()
        three = tuple(replicas[:3])
        for name, rules, placed in (
            ("acked", TopicSettings(min_isr), three),
            ("os", TopicSettings(min_isr, acknowledges_unsynced=True), three),
            ("unclean", TopicSettings(min_isr, unclean_leader_election=True), three),
            ("single", TopicSettings(min_isr), three[:1]),
        ):
            world.untold.append(world.add_topic(name, rules, placed))
            world.tell_next()

    def next_request(self) -> int:
        self.world.requests += 1
        return self.world.requests

    @rule(order=st.lists(st.booleans(), min_size=1, max_size=4))
    def tell(self, order: list[bool]) -> None:
        for requests_first in order:
            self.world.tell_next(requests_first=requests_first)
            self.world.finish_commit()

    @rule(is_done=st.booleans())
    @precondition(lambda self: self.world.in_flight is not None)
    def lose_the_outcome(self, is_done: bool) -> None:
        self.world.finish_commit(is_known=False, is_done=is_done)

    @rule()
    def change_the_controller(self) -> None:
        self.world.begin_controller()

    def settle(self) -> None:
        """Until nothing is left to do."""
        for _ in range(500):
            if self.world.must_reload:
                self.world.reload()
            elif self.world.in_flight is not None:
                self.world.finish_commit()
            elif self.world.untold or self.world.posted:
                self.world.tell_next()
            else:
                return
        raise AssertionError("it never comes to rest")

    @rule(node_id=nodes, cleanly=st.booleans(), session_too=st.booleans(), is_seen=st.booleans())
    def stop_process(self, node_id: int, cleanly: bool, session_too: bool, is_seen: bool) -> None:
        process = self.world.processes[node_id]
        if not process.is_alive:
            return
        process.is_alive, process.is_doubtful = False, process.is_doubtful or not cleanly
        if node_id in self.world.registrations:
            if is_seen:
                self.world.untold.append(BrokerFoundDead(node_id, self.world.epoch(node_id)))
            if session_too:
                self.world.untold.append(self.world.lose(node_id))

    @rule(node_id=nodes)
    def end_session(self, node_id: int) -> None:
        if node_id in self.world.registrations:
            self.world.untold.append(self.world.lose(node_id))

    @rule(node_id=nodes, wiped=st.integers(0, 3), lost=st.integers(0, 2))
    def start_process(self, node_id: int, wiped: int, lost: int) -> None:
        if not self.world.processes[node_id].is_alive:
            self.world.start_process(node_id, wiped=wiped == 3, lost=lost)

    @rule(node_id=nodes)
    def begin_session(self, node_id: int) -> None:
        """The same process in another session."""
        if self.world.processes[node_id].is_alive:
            self.world.announce(node_id)

    @rule(nodes=st.sets(nodes, min_size=2), wiped=st.sampled_from([None, *range(BROKERS)]), lost=st.integers(0, 2))
    def restart_together(self, nodes: set[int], wiped: int | None, lost: int) -> None:
        """A power cut: their registrations are replaced before anybody has noticed."""
        for node_id in sorted(nodes):
            self.world.processes[node_id].is_doubtful = True
            self.world.start_process(node_id, wiped=node_id == wiped, lost=lost * (node_id % 2))

    @rule(topic=topics, knows=st.booleans(), count=st.integers(1, 3))
    def produce(self, topic: str, knows: bool, count: int) -> None:
        if knows:
            self.world.hear(topic)
        for _ in range(count):
            self.world.produce(topic)

    @rule(topic=topics)
    def produce_as_replaced(self, topic: str) -> None:
        self.world.produce_as_replaced(topic)

    @rule(topic=topics, members=st.sets(nodes) | st.just(set(range(BROKERS))), knows=st.booleans())
    def alter(self, topic: str, members: set[int], knows: bool) -> None:
        if knows:
            self.world.hear(topic)
        self.world.alter(topic, members & set(self.world.state(topic).replicas))

    @rule(topic=topics, knows=st.booleans())
    def resign(self, topic: str, knows: bool) -> None:
        if knows:
            self.world.hear(topic)
        self.world.alter(topic, set(self.world.known(topic).state.isr), resigns=True)

    @rule()
    def catch_up(self) -> None:
        for topic in self.world.logs:
            self.world.hear(topic)
            self.world.alter(topic, set(self.world.state(topic).replicas))
            self.world.produce(topic)

    @rule(topic=topics, min_isr=st.integers(1, 3))
    def configure(self, topic: str, min_isr: int) -> None:
        topic_id, before = self.world.topics[topic]
        self.world.topics[topic] = (topic_id, before._replace(min_insync_replicas=min_isr))
        self.world.untold.append(TopicConfigured(topic, self.world.topics[topic][1]))

    @rule(topic=topics, replicas=st.lists(nodes, unique=True, min_size=1, max_size=3) | st.none())
    def reassign(self, topic: str, replicas: list[int] | None) -> None:
        wish = ReassignmentWish(key(topic), None if replicas is None else tuple(replicas))
        self.world.posted.append(AlterReassignments(self.next_request(), (wish,)))

    @rule(topic=topics)
    def elect_preferred(self, topic: str) -> None:
        self.world.posted.append(ElectLeaders(self.next_request(), (key(topic),)))

    @rule(node_id=nodes)
    def stop_broker(self, node_id: int) -> None:
        if node_id in self.world.registrations:
            self.stopping.add((node_id, self.world.epoch(node_id)))
            self.world.posted.append(BrokerStopping(self.next_request(), node_id, self.world.epoch(node_id)))

    @rule(node_id=nodes, draining=st.booleans())
    def drain(self, node_id: int, draining: bool) -> None:
        self.world.posted.append(SetDraining(self.next_request(), node_id, draining))

    @rule(node_id=nodes)
    def unregister(self, node_id: int) -> None:
        self.world.posted.append(UnregisterBroker(self.next_request(), node_id))

    @rule()
    def pass_time(self) -> None:
        self.world.step += 5
        self.world.untold.append(Tick())

    @invariant()
    def nothing_is_lost(self) -> None:
        self.world.check()
        self.world.step += 1
        if self.world.step % self.pace == 0:
            self.settle()
            self.world.check()

    def teardown(self) -> None:
        """In the end everyone is admitted, and leads what it can."""
        self.settle()
        self.world.check()
        live = self.world.controller.view.live
        able = {node_id for node_id in live if (node_id, self.world.epoch(node_id)) not in self.stopping}
        states = self.world.broker_states()
        for node_id, (broker_epoch, _) in self.world.registrations.items():
            assert broker_epoch in (states[node_id][0].admitted_epoch, states[node_id][0].fenced_epoch)
        for topic in self.world.logs:
            state = self.world.state(topic)
            assert set(state.isr) <= live
            if state.leader == NO_LEADER:
                assert not {*state.eligible_leaders} & able
        assert self.world.asked <= set(self.world.answers)


TestController = ControllerMachine.TestCase
TestController.settings = settings(max_examples=100, stateful_step_count=40)
