"""The controller on a store in memory: what it makes of the nodes after each event."""

from __future__ import annotations

from tests.cluster.store_model import ControlledStore

from penstock.cluster.core.election import TopicSettings
from penstock.cluster.core.events import BrokerFoundDead, BrokerStopping
from penstock.coordination.interface import Check, Node
from penstock.coordination.paths import CONTROLLER_EPOCH, NO_LEADER
from penstock.errors import Problem

MIN_2 = TopicSettings(min_insync_replicas=2)


def cluster(*brokers: int, **topics: tuple[TopicSettings, tuple[int, ...]]) -> ControlledStore:
    """All brokers admitted, then one partition per topic."""
    store = ControlledStore()
    store.start()
    for node_id in brokers:
        store.tell(store.register(node_id))
    for name, (settings, replicas) in topics.items():
        store.tell(store.create_topic(name, settings, replicas))
    return store


def test_a_new_broker_is_admitted() -> None:
    store = cluster(1)
    state, version = store.broker_states()[1]
    assert (state.admitted_epoch, version) == (store.epoch(1), 0)
    assert store.published[-1].brokers[0].state == state


def test_the_death_of_a_leader_moves_it_and_shrinks_the_isr_in_one_change() -> None:
    store = cluster(1, 2, 3, t=(MIN_2, (1, 2, 3)))
    store.tell(store.lose(1))
    state, version = store.partition("t")
    assert (state.leader, state.leader_epoch, state.isr, version) == (2, 1, (2, 3), 1)
    assert state.eligible_leaders == ()


def test_the_death_of_a_follower_changes_the_version_but_not_the_leader_epoch() -> None:
    store = cluster(1, 2, 3, t=(MIN_2, (1, 2, 3)))
    store.tell(store.lose(3))
    state, version = store.partition("t")
    assert (state.leader, state.leader_epoch, state.isr, version) == (1, 0, (1, 2), 1)


def test_who_leaves_below_min_isr_can_lead_when_the_last_one_has_gone() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    store.tell(store.lose(2))
    assert (store.state("t").isr, store.state("t").eligible_leaders) == ((1,), (2,))
    store.tell(store.lose(1))
    state = store.state("t")
    assert (state.leader, state.isr, state.eligible_leaders, state.last_known_leader) == (NO_LEADER, (), (1, 2), 1)
    store.tell(store.register(2))
    state = store.state("t")
    assert (state.leader, state.isr, state.eligible_leaders, state.leader_epoch) == (2, (2,), (1,), 2)


def test_evidence_of_death_is_recorded_with_what_follows_from_it() -> None:
    store = cluster(1, 2, t=(TopicSettings(), (1, 2)))
    before = len(store.commits)
    store.tell(BrokerFoundDead(1, store.epoch(1)))
    assert len(store.commits) == before + 1
    assert store.state("t").leader == 2
    assert store.broker_states()[1][0].fenced_epoch == store.epoch(1)
    store.tell(store.register(1))
    assert store.broker_states()[1][0].admitted_epoch == store.epoch(1) > store.broker_states()[1][0].fenced_epoch


def test_every_transaction_checks_the_controller_epoch_first() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    store.tell(store.lose(2))
    assert store.commits
    assert all(commit.changes[0] == Check(CONTROLLER_EPOCH, 0) for commit in store.commits)


def test_a_controller_that_was_replaced_resigns_and_answers_all_that_wait() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    store.nodes[CONTROLLER_EPOCH] = Node(b"", 1)
    store.tell(BrokerStopping(7, 2, store.epoch(2)))
    assert store.has_resigned
    refusal = store.answers[7].refusal
    assert refusal is not None and refusal.problem is Problem.NOT_CONTROLLER
    assert store.state("t").isr == (1, 2)
    store.tell(BrokerStopping(8, 2, store.epoch(2)))
    assert store.answers[8].refusal == refusal
