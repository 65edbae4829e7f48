"""The controller on a store in memory: what it makes of the nodes after each event."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.cluster.store_model import ControlledStore, key

from penstock.cluster.core.effects import Answer, Commit, Reload
from penstock.cluster.core.election import TopicSettings
from penstock.cluster.core.events import (
    AlterPartition,
    AlterReassignments,
    BrokerFoundDead,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    Committed,
    Conflicted,
    ElectLeaders,
    IsrChange,
    IsrMember,
    ReassignmentWish,
    SetDraining,
    Tick,
    TopicConfigured,
    TopicRemoved,
    UnregisterBroker,
)
from penstock.cluster.core.view import PartitionNode
from penstock.coordination.interface import Check, Node, Replace
from penstock.coordination.paths import CONTROLLER_EPOCH, NO_LEADER, PARTITION
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


def test_a_stopping_broker_hands_over_what_it_can_and_is_answered_then() -> None:
    store = cluster(1, 2, 3, shared=(MIN_2, (1, 2, 3)), alone=(TopicSettings(), (1,)))
    store.tell(BrokerStopping(7, 1, store.epoch(1)))
    assert (store.state("shared").leader, store.state("shared").isr) == (2, (2, 3))
    assert (store.state("alone").leader, store.state("alone").isr) == (1, (1,))
    assert store.answers[7] == Answer(7, leaderships=1)


def test_a_stop_of_an_earlier_life_is_refused() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    stale = store.epoch(1)
    store.tell(store.register(1), BrokerStopping(7, 1, stale))
    refusal = store.answers[7].refusal
    assert refusal is not None and refusal.problem is Problem.STALE_BROKER_EPOCH
    assert store.state("t").isr == (1, 2)


def test_a_new_topic_with_a_dead_replica_gets_a_leader() -> None:
    store = cluster(1, 2)
    created = store.create_topic("t", TopicSettings(), (3, 1, 2))
    store.tell(created)
    assert (store.state("t").leader, store.state("t").isr) == (1, (1, 2))


def test_another_min_isr_is_recorded_with_what_follows_from_it() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    store.tell(store.lose(2))
    assert store.state("t").eligible_leaders == (2,)
    store.tell(TopicConfigured("t", TopicSettings(1)))
    assert (store.state("t").min_insync_replicas, store.state("t").eligible_leaders) == (1, ())


def test_a_topic_that_is_gone_is_left_alone() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    del store.nodes["/topics/t/0"], store.topics["t"]
    store.tell(TopicRemoved("t"), store.lose(1))
    assert "/topics/t/0" not in store.nodes


def test_a_conflict_is_looked_at_and_the_rest_done_again() -> None:
    store = cluster(1, 2, 3, t=(MIN_2, (1, 2, 3)), u=(MIN_2, (1, 2, 3)))
    foreign = replace(store.state("t"), isr=(1, 3))
    assert store.commit([Replace("/topics/t/0", PARTITION.encode(foreign), 0)]) is not None
    store.tell(store.lose(1))
    assert (store.state("t").leader, store.state("t").isr, store.partition("t").version) == (3, (3,), 2)
    assert (store.state("u").leader, store.state("u").isr) == (2, (2, 3))
    published = [row.node for publish in store.published for row in publish.partitions if row.key == key("t")]
    assert published == [PartitionNode(foreign, 1), store.partition("t")]


def test_a_partition_that_vanished_explains_a_conflict() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)), u=(MIN_2, (1, 2)))
    del store.nodes["/topics/t/0"]
    store.tell(store.lose(1))
    assert store.state("u").leader == 2


def test_a_conflict_that_nothing_explains_has_everything_read_anew() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    commit = store.controller.step(store.lose(1), 0)[0]
    assert isinstance(commit, Commit)
    nodes = {change.path: store.nodes[change.path] for change in commit.changes}
    effects = store.controller.step(Conflicted(commit.commit_id, nodes), 0)
    assert effects == [Reload()]
    assert store.controller.step(Tick(), 0) == []
    store.carry_out(effects)
    assert store.state("t").leader == 2


@pytest.mark.parametrize("was_done", [True, False])
def test_an_unknown_outcome_is_settled_by_reading_anew(was_done: bool) -> None:
    store = cluster(1, 2, 3, t=(MIN_2, (1, 2, 3)))
    (commit,) = store.controller.step(BrokerStopping(7, 1, store.epoch(1)), 0)
    assert isinstance(commit, Commit)
    if was_done:
        assert store.commit(commit.changes) is not None
    assert store.controller.step(store.lose(3), 0) == []
    store.start()
    assert (store.state("t").leader, store.state("t").leader_epoch, store.state("t").isr) == (2, 1, (2,))
    assert store.answers[7] == Answer(7)
    late = store.controller.step(Committed(commit.commit_id, [0, 1]), 0)
    assert late == []


def test_requests_share_the_transaction_after_the_one_on_its_way() -> None:
    store = cluster(1, 2, 3, t=(MIN_2, (1, 2, 3)), u=(MIN_2, (2, 3, 1)))
    (first,) = store.controller.step(store.lose(1), 0)
    assert isinstance(first, Commit)
    for request_id, topic, leader in ((1, "t", 2), (2, "u", 2)):
        change = IsrChange(store.topics[topic][0], 0, int(topic == "t"), 1, (IsrMember(leader, -1),))
        assert store.controller.step(AlterPartition(request_id, leader, store.epoch(leader), (change,)), 0) == []
    store.carry_out([first])
    assert len(store.commits[-1].changes) == 3
    assert [store.answers[n].rows[0].refusal for n in (1, 2)] == [None, None]
    assert store.state("t").isr == store.state("u").isr == (2,)


def test_the_preferred_leader_leads_again_when_it_has_been_back_for_a_while() -> None:
    store = cluster(1, 2, t=(TopicSettings(), (1, 2)))
    store.tell(store.lose(1), store.register(1))
    change = IsrChange(store.topics["t"][0], 0, 1, 1, (IsrMember(2, -1), IsrMember(1, store.epoch(1))))
    store.tell(AlterPartition(1, 2, store.epoch(2), (change,)))
    assert (store.state("t").leader, store.state("t").isr) == (2, (1, 2))
    moved_ms = None
    while moved_ms is None and store.now_ms < 60_000:
        deadline = store.controller.next_deadline_ms()
        assert deadline is not None
        store.now_ms = max(deadline, store.now_ms + 1)
        store.tell(Tick())
        moved_ms = store.now_ms if store.state("t").leader == 1 else None
    assert moved_ms is not None and 10_000 <= moved_ms <= 15_000
    assert store.controller.next_deadline_ms() is None


def test_leaders_do_not_go_back_to_a_draining_broker() -> None:
    store = cluster(1, 2, 3, 4, t=(TopicSettings(), (2, 1)))
    store.tell(SetDraining(1, 1, True), AlterReassignments(2, (ReassignmentWish(key("t"), (1, 2)),)))
    store.now_ms = 60_000
    store.tell(Tick())
    assert store.answers[2].rows[0].refusal is None
    assert store.state("t").leader == 2


def test_leaders_are_elected_on_request() -> None:
    store = cluster(1, 2, 3, t=(TopicSettings(), (1, 2, 3)), u=(TopicSettings(), (3,)))
    store.tell(AlterReassignments(1, (ReassignmentWish(key("t"), (2, 1, 3)),)), store.lose(3))
    store.tell(ElectLeaders(2, (key("t"), key("u"), key("v"))))
    assert store.state("t").leader == 2
    problems = [row.refusal and row.refusal.problem for row in store.answers[2].rows]
    assert problems == [None, Problem.PREFERRED_LEADER_NOT_AVAILABLE, Problem.UNKNOWN_TOPIC_OR_PARTITION]
    store.tell(ElectLeaders(3, (key("t"),)), ElectLeaders(4, None))
    assert store.answers[3].rows[0].refusal is not None
    assert [row.key for row in store.answers[4].rows] == [key("u")]


def test_an_unclean_election_on_request_takes_whoever_is_alive() -> None:
    store = cluster(1, 2, t=(TopicSettings(), (1, 2)), u=(TopicSettings(), (1,)))
    store.tell(store.lose(2), store.lose(1), store.register(2))
    assert store.state("t").leader == NO_LEADER
    store.tell(ElectLeaders(1, None, unclean=True))
    assert (store.state("t").leader, store.state("t").isr, store.state("t").eligible_leaders) == (2, (2,), ())
    rows = {row.key: row.refusal for row in store.answers[1].rows}
    unled = rows[key("u")]
    assert rows[key("t")] is None and unled is not None
    assert unled.problem is Problem.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_broker_is_unregistered_when_it_is_gone_and_nothing_hangs_on_it() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)), alone=(TopicSettings(), (2,)))
    store.tell(UnregisterBroker(1, 2), store.lose(2), UnregisterBroker(2, 2))
    registered, needed = store.answers[1].refusal, store.answers[2].refusal
    assert registered is not None and "stop it" in registered.text
    assert needed is not None and "alone-0" in needed.text
    assert store.state("t").eligible_leaders == (2,)
    store.tell(TopicRemoved("alone"), UnregisterBroker(3, 2))
    assert store.answers[3].refusal is None and 2 not in store.broker_states()
    assert (store.state("t").isr, store.state("t").eligible_leaders, store.state("t").replicas) == ((1,), (), (1, 2))
    store.tell(UnregisterBroker(4, 2))
    unknown = store.answers[4].refusal
    assert unknown is not None and unknown.problem is Problem.BROKER_NOT_REGISTERED


def test_a_broker_is_not_unregistered_while_it_may_be_the_only_one_that_has_everything() -> None:
    store = cluster(1, 2, t=(TopicSettings(acknowledges_unsynced=True), (1, 2)))
    store.tell(store.lose(1), store.lose(2), store.register(2, clean=False), UnregisterBroker(1, 1))
    refusal = store.answers[1].refusal
    assert refusal is not None and "may have everything" in refusal.text
    assert store.state("t").last_known_eligible_leaders == (1, 2)


def test_a_drain_is_refused_when_the_others_could_not_hold_the_replicas() -> None:
    store = cluster(1, 2, 3, t=(MIN_2, (1, 2, 3)))
    store.tell(SetDraining(1, 3, True))
    refusal = store.answers[1].refusal
    assert refusal is not None and refusal.problem is Problem.INVALID_REPLICATION_FACTOR and "t-0" in refusal.text
    store.tell(store.register(4), SetDraining(2, 3, True))
    assert store.answers[2].refusal is None and store.broker_states()[3][0].draining
    store.tell(store.register(3))
    assert store.broker_states()[3][0].draining
    store.tell(SetDraining(3, 3, False), SetDraining(4, 9, True))
    assert not store.broker_states()[3][0].draining
    assert store.answers[4].refusal is not None


def test_late_news_of_an_earlier_life_changes_nothing() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    earlier, row = store.registrations[1]
    store.tell(store.register(1))
    state = store.partition("t")
    store.tell(BrokerGone(1, earlier), BrokerFoundDead(1, earlier), BrokerRegistered(1, earlier, row))
    assert store.partition("t") == state
    assert store.controller.view.live == {1, 2}


def test_a_conflict_with_garbage_has_everything_read_anew() -> None:
    store = cluster(1, 2, t=(MIN_2, (1, 2)))
    commit = store.controller.step(store.lose(1), 0)[0]
    assert isinstance(commit, Commit)
    nodes = {change.path: Node(b"garbage", 7) for change in commit.changes}
    nodes[CONTROLLER_EPOCH] = store.nodes[CONTROLLER_EPOCH]
    assert store.controller.step(Conflicted(commit.commit_id, nodes), 0) == [Reload()]
    store.start()
    assert store.state("t").leader == 2
