"""A broker comes back: what its new life may keep, and that it counts from the last transaction on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.cluster.store_model import ControlledStore

from penstock.cluster.core.controller import Controller
from penstock.cluster.core.effects import Answer, Commit
from penstock.cluster.core.election import LogEnd, TopicSettings
from penstock.cluster.core.events import BrokerFoundDead, Committed, LogEnds, TopicConfigured
from penstock.coordination.core.limits import check_commit
from penstock.coordination.paths import NO_LEADER, broker_state_path

ACKED = TopicSettings(min_insync_replicas=2)
OS = TopicSettings(min_insync_replicas=2, acknowledges_unsynced=True)


def cluster(settings: TopicSettings, *replicas: int) -> ControlledStore:
    store = ControlledStore()
    store.start()
    for node_id in (1, 2, 3):
        store.tell(store.register(node_id))
    store.tell(store.create_topic("t", settings, replicas))
    return store


def test_an_unclean_stop_costs_nothing_but_an_epoch_where_the_acknowledged_is_synced() -> None:
    store = cluster(ACKED, 1, 2, 3)
    store.tell(store.register(1, clean=False))
    state = store.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2, 3))
    store.tell(store.register(2, clean=False))
    assert store.state("t") == state


@pytest.mark.parametrize(
    ("life", "leader", "isr"),
    [({"directory": 22}, 2, (2, 3)), ({"clean": False}, 2, (2, 3)), ({}, 1, (1, 2, 3))],
    ids=["wiped", "unclean", "another session"],
)
def test_nobody_is_admitted_while_a_topic_is_not_understood(
    life: Mapping[str, Any], leader: int, isr: tuple[int, ...]
) -> None:
    """What the new life may not keep of it, the lead of an old epoch at least, could not be taken away."""
    store = cluster(OS, 1, 2, 3)
    store.tell(store.create_topic("good", OS, (1, 2, 3)))
    store.garbage = {"t"}
    store.start()
    store.tell(store.register(1, **life))
    assert not store.is_admitted(1)
    # The others need not wait for it.
    assert (store.state("good").leader, store.state("good").isr) == (2, (2, 3))
    store.garbage = set()
    store.start()
    assert store.is_admitted(1)
    state = store.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (leader, 1, isr)


def test_leader_epoch_and_admission_are_one_transaction() -> None:
    store = cluster(ACKED, 1, 2, 3)
    store.tell(store.register(1))
    paths = [change.path for change in store.commits[-1].changes]
    assert paths == ["/controller-epoch", "/topics/t/0", broker_state_path(1)]


def test_an_unclean_stop_costs_the_membership_where_it_is_not_synced() -> None:
    store = cluster(OS, 1, 2, 3)
    store.tell(store.register(1, clean=False))
    state = store.state("t")
    assert (state.leader, state.leader_epoch, state.isr, state.eligible_leaders) == (2, 1, (2, 3), ())
    store.tell(store.register(2, clean=True))
    assert (store.state("t").leader, store.state("t").isr) == (2, (2, 3))


def test_it_costs_that_too_where_only_the_broker_itself_did_not_sync() -> None:
    """Its default was another than the controller's: a change of it that has not come to all brokers yet."""
    store = cluster(ACKED, 1, 2, 3)
    store.tell(store.register(1, clean=False))
    assert store.state("t").isr == (1, 2, 3)
    store.tell(store.register(3, clean=False, unsynced=True))
    assert store.state("t").isr == (1, 2)


def test_a_policy_that_was_changed_while_a_broker_was_down_brings_back_nothing() -> None:
    """What it lost with its power it had acknowledged before that, and another may have it."""
    store = cluster(TopicSettings(min_insync_replicas=1, acknowledges_unsynced=True), 1, 2)
    store.tell(store.create_topic("acked", TopicSettings(min_insync_replicas=1), (1, 2)))
    store.tell(store.lose(1), store.lose(2))
    assert (store.state("t").eligible_leaders, store.state("t").last_known_eligible_leaders) == ((2,), (1,))
    store.tell(TopicConfigured("t", TopicSettings(min_insync_replicas=1)))
    unsynced = (store.topic("t").topic_id,)
    store.tell(store.register(2, clean=False, unsynced_topics=unsynced))
    assert (store.state("t").leader, store.state("acked").leader) == (NO_LEADER, 2)
    store.tell(store.register(1, clean=False, unsynced_topics=unsynced))
    assert store.questions[-1].brokers == {1: store.epoch(1), 2: store.epoch(2)}


def test_who_is_eligible_loses_that_too() -> None:
    store = cluster(OS, 1, 2)
    store.tell(store.lose(2))
    assert store.state("t").eligible_leaders == (2,)
    store.tell(store.register(2, clean=False))
    assert (store.state("t").leader, store.state("t").eligible_leaders) == (1, ())


def test_a_wiped_disk_costs_everything_also_what_was_synced() -> None:
    store = cluster(ACKED, 1, 2, 3)
    store.tell(store.register(1, directory=11))
    state = store.state("t")
    assert (state.leader, state.isr, state.last_known_eligible_leaders) == (2, (2, 3), ())
    assert store.broker_states()[1][0].directory_id.int == 11


def test_the_only_replica_that_was_wiped_does_not_lead() -> None:
    store = cluster(ACKED, 1)
    store.tell(store.register(1, directory=11))
    state = store.state("t")
    assert (state.leader, state.isr, state.eligible_leaders, state.last_known_leader) == (NO_LEADER, (), (), 1)
    assert store.broker_states()[1][0].admitted_epoch == store.epoch(1)


def test_with_unclean_elections_a_wiped_replica_leads_if_nobody_else_can() -> None:
    settings = TopicSettings(unclean_leader_election=True)
    store = cluster(settings, 1, 2)
    store.tell(store.lose(2), store.register(1, directory=11))
    assert store.state("t").leader == 1
    store = cluster(settings, 1, 2)
    store.tell(store.lose(2), store.register(2), store.register(1, directory=11))
    assert (store.state("t").leader, store.state("t").isr) == (2, (2,))


def test_after_a_power_cut_of_all_the_highest_log_leads_once_all_are_back() -> None:
    store = cluster(OS, 1, 2, 3)
    store.tell(store.lose(1), store.lose(2), store.lose(3))
    assert store.state("t").eligible_leaders == (2, 3)
    store.tell(store.register(1, clean=False), store.register(2, clean=False))
    assert (store.state("t").leader, store.questions) == (NO_LEADER, [])
    store.tell(store.register(3, clean=False))
    (question,) = store.questions
    # Also of the first that the controller missed: nobody led without it.
    assert question.brokers == {node_id: store.epoch(node_id) for node_id in (1, 2, 3)}
    ends = {node_id: (store.epoch(node_id), LogEnd(4, 150 - node_id)) for node_id in (1, 2, 3)}
    store.tell(LogEnds(question.partition, ends))
    state = store.state("t")
    assert (state.leader, state.isr) == (1, (1,))


def test_one_that_lost_power_and_was_elected_before_that_was_known_does_not_outdo_who_had_everything() -> None:
    store = cluster(TopicSettings(min_insync_replicas=1, acknowledges_unsynced=True), 1, 2)
    # The session of 2 lives on for a while after its power went.
    store.tell(store.lose(1))
    assert (store.state("t").leader, store.state("t").isr) == (2, (2,))
    store.tell(store.register(2, clean=False))
    assert (store.state("t").leader, store.questions) == (NO_LEADER, [])
    store.tell(store.register(1, clean=False))
    ends = {1: (store.epoch(1), LogEnd(0, 120)), 2: (store.epoch(2), LogEnd(0, 100))}
    store.tell(LogEnds(store.questions[-1].partition, ends))
    assert (store.state("t").leader, store.state("t").isr) == (1, (1,))


def test_what_many_partitions_answer_while_the_store_works_is_decided_in_transactions_that_it_takes() -> None:
    """One that is too large would be refused, and decided again as it was."""
    count = 3_000
    store = cluster(OS, 1, 2)
    store.tell(store.create_topic("large", OS, *[(1, 2)] * count))
    store.tell(store.lose(1), store.lose(2))
    store.tell(store.register(1, clean=False), store.register(2, clean=False))
    assert len(store.questions) == count + 1
    started_s = time.process_time()
    for question in store.questions:
        # Somebody did not answer. It does not cost a look at all the others.
        store.tell(LogEnds(question.partition, {}))
        store.controller.next_deadline_ms()
    assert time.process_time() - started_s < 2
    ends = {node_id: (store.epoch(node_id), LogEnd(4, 150 - node_id)) for node_id in (1, 2)}
    under_way = [
        effect
        for question in store.questions
        for effect in store.controller.step(LogEnds(question.partition, ends), store.now_ms)
    ]
    store.carry_out(under_way)
    for commit in store.commits:
        check_commit(commit.changes)
    assert {store.state("large", number).leader for number in range(count)} == {1}


def test_an_answer_of_an_earlier_life_does_not_count_and_the_question_is_repeated() -> None:
    store = cluster(OS, 1, 2)
    for node_id in (1, 2):
        store.tell(store.lose(node_id))
    store.tell(store.register(1, clean=False), store.register(2, clean=False))
    (question,) = store.questions
    stale = {node_id: (epoch, LogEnd(0, node_id)) for node_id, epoch in question.brokers.items()}
    store.tell(store.register(2, clean=False), LogEnds(question.partition, stale))
    assert store.state("t").leader == NO_LEADER
    deadline = store.controller.next_deadline_ms()
    assert deadline is not None
    store.now_ms = deadline
    store.tell(store.register(1, clean=False))
    assert store.questions[-1].brokers == {1: store.epoch(1), 2: store.epoch(2)}
    ends = {node_id: (epoch, LogEnd(0, 5)) for node_id, epoch in store.questions[-1].brokers.items()}
    store.tell(LogEnds(question.partition, ends))
    assert store.state("t").leader == 1


def test_a_broker_of_which_nothing_is_known_is_taken_for_empty() -> None:
    store = cluster(ACKED, 1, 2)
    del store.nodes[broker_state_path(1)]
    store.controller = Controller(0)
    store.start()
    assert (store.state("t").leader, store.state("t").isr, store.state("t").eligible_leaders) == (2, (2,), ())


def test_a_registration_that_was_found_dead_is_never_admitted() -> None:
    store = cluster(ACKED, 1, 2)
    store.tell(store.lose(1))
    dead = store.register(1)
    store.tell(BrokerFoundDead(1, dead.broker_epoch), dead)
    assert store.broker_states()[1][0].admitted_epoch < dead.broker_epoch == store.broker_states()[1][0].fenced_epoch
    store.controller = Controller(0)
    store.start()
    assert store.broker_states()[1][0].admitted_epoch < dead.broker_epoch


def many_partitions(count: int) -> ControlledStore:
    store = cluster(ACKED, 1, 2, 3)
    store.tell(store.create_topic("many", ACKED, *[(1, 2, 3)] * count))
    return store


def test_thousands_of_partitions_take_several_transactions_and_the_last_one_admits() -> None:
    store = many_partitions(2500)
    before = len(store.commits)
    store.tell(store.register(1, directory=11))
    commits = store.commits[before:]
    assert len(commits) > 2
    admitting = [any(change.path == broker_state_path(1) for change in commit.changes) for commit in commits]
    assert admitting == [False] * (len(commits) - 1) + [True]
    assert all(store.state("many", number).isr == (2, 3) for number in range(2500))


def test_a_controller_that_dies_half_way_leaves_a_broker_that_is_not_admitted() -> None:
    store = many_partitions(2500)
    first = store.controller.step(store.register(1, directory=11), 0)[0]
    assert isinstance(first, Commit) and store.commit(first.changes) is not None
    store.controller = Controller(0)
    assert store.broker_states()[1][0].admitted_epoch < store.epoch(1)
    store.start()
    assert store.broker_states()[1][0].admitted_epoch == store.epoch(1)
    assert all(store.state("many", number).isr == (2, 3) for number in range(2500))


def test_a_life_that_ends_during_its_admission_is_not_taken_for_the_next_one() -> None:
    store = many_partitions(2500)
    commit = store.controller.step(store.register(1, directory=11), 0)[0]
    assert isinstance(commit, Commit)
    assert store.controller.step(store.register(1, directory=12), 0) == []
    versions = store.commit(commit.changes)
    assert versions is not None
    effects = store.controller.step(Committed(commit.commit_id, versions), 0)
    assert not any(isinstance(effect, Answer) for effect in effects)
    store.carry_out(effects)
    state, _ = store.broker_states()[1]
    assert (state.admitted_epoch, state.directory_id.int) == (store.epoch(1), 12)
    assert all(store.state("many", number).isr == (2, 3) for number in range(2500))


def test_all_come_back_at_once_before_anybody_noticed_and_stay_in_sync() -> None:
    store = cluster(ACKED, 1, 2, 3)
    for node_id in (1, 2, 3):
        store.register(node_id, clean=False)
    store.controller = Controller(0)
    store.start()
    state = store.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2, 3))
