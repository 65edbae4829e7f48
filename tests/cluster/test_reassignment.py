"""Replicas that move (KIP-455), up to the answers of the controller."""

from __future__ import annotations

import pytest
from tests.cluster.store_model import ControlledStore, key

from penstock.cluster.core.election import TopicSettings
from penstock.cluster.core.events import (
    AlterPartition,
    AlterReassignments,
    IsrChange,
    IsrMember,
    ReassignmentWish,
    SetDraining,
)
from penstock.cluster.core.reassignment import cancelled, reassigned, reassignments, target_of
from penstock.coordination.paths import NO_LEADER, PartitionState
from penstock.errors import Problem, Refused

EVERYONE = frozenset(range(1, 7))


def cluster(settings: TopicSettings, *replicas: int) -> ControlledStore:
    store = ControlledStore()
    store.start()
    for node_id in range(1, 6):
        store.tell(store.register(node_id))
    store.tell(store.create_topic("t", settings, replicas))
    return store


def wish(store: ControlledStore, *replicas: int, cancel: bool = False, rate: int = 0) -> Refused | None:
    request_id = len(store.answers) + 1
    target = None if cancel else replicas
    store.tell(AlterReassignments(request_id, (ReassignmentWish(key("t"), target, rate),)))
    return store.answers[request_id].rows[0].refusal


def alter(store: ControlledStore, *isr: int) -> Refused | None:
    """As the leader."""
    request_id, (state, version) = len(store.answers) + 1, store.partition("t")
    members = tuple(IsrMember(node_id, store.epoch(node_id)) for node_id in isr)
    change = IsrChange(store.topics["t"][0], 0, state.leader_epoch, version, members)
    store.tell(AlterPartition(request_id, state.leader, store.epoch(state.leader), (change,)))
    return store.answers[request_id].rows[0].refusal


def test_replicas_are_added_first_and_removed_when_all_that_stay_are_in_sync() -> None:
    store = cluster(TopicSettings(2), 1, 2, 3)
    assert wish(store, 4, 2, 5) is None
    state = store.state("t")
    assert (state.replicas, state.adding, state.removing) == ((4, 2, 5, 1, 3), (4, 5), (1, 3))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2, 3))
    assert list(reassignments(store.controller.view)) == [key("t")]
    assert alter(store, 1, 2, 3, 4) is None
    assert store.state("t").removing == (1, 3)
    refusal = alter(store, 1, 2, 3, 4, 5)
    assert refusal is not None and refusal.problem is Problem.NEW_LEADER_ELECTED
    state = store.state("t")
    assert (state.replicas, state.adding, state.removing, state.isr) == ((4, 2, 5), (), (), (4, 2, 5))
    assert (state.leader, state.leader_epoch) == (4, 1)
    assert not reassignments(store.controller.view)


def test_the_leader_stays_if_it_is_a_target_but_its_epoch_ends_when_replicas_go() -> None:
    store = cluster(TopicSettings(), 1, 2)
    assert wish(store, 1, 3) is None
    assert alter(store, 1, 2, 3) is None
    state = store.state("t")
    assert (state.leader, state.leader_epoch, state.replicas, state.isr) == (1, 1, (1, 3), (1, 3))


def test_more_replicas_do_not_raise_min_isr_before_they_are_in_sync() -> None:
    store = cluster(TopicSettings(2), 1)
    assert wish(store, 1, 2, 3) is None
    assert store.state("t").min_insync_replicas == 1
    assert alter(store, 1, 2, 3) is None
    state = store.state("t")
    assert (state.min_insync_replicas, state.adding, state.leader_epoch) == (2, (), 0)


def test_another_order_is_done_at_once_and_moves_nobody() -> None:
    store = cluster(TopicSettings(), 1, 2, 3)
    assert wish(store, 3, 2, 1) is None
    state = store.state("t")
    assert (state.replicas, state.leader, state.leader_epoch, state.adding) == ((3, 2, 1), 1, 0, ())


def test_cancelling_takes_those_back_that_were_added() -> None:
    store = cluster(TopicSettings(), 1, 2)
    assert wish(store, 3, 4) is None
    assert alter(store, 1, 2, 3) is None
    assert wish(store, cancel=True) is None
    state = store.state("t")
    assert (state.replicas, state.isr, state.adding, state.removing) == ((1, 2), (1, 2), (), ())
    assert state.leader_epoch == 1
    refusal = wish(store, cancel=True)
    assert refusal is not None and refusal.problem is Problem.NO_REASSIGNMENT_IN_PROGRESS


def test_cancelling_moves_the_leadership_away_from_those_that_were_added() -> None:
    state = PartitionState(3, 5, (3, 1), (3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    assert cancelled(state) == PartitionState(3, 5, (1,), (1, 2))


def test_it_is_not_cancelled_while_only_those_that_were_added_have_everything() -> None:
    led = PartitionState(3, 5, (3,), (3, 1), eligible_leaders=(1,), adding=(3,), removing=(1,), min_insync_replicas=2)
    orphan = PartitionState(NO_LEADER, 5, (), (3, 1), eligible_leaders=(3,), adding=(3,), removing=(1,))
    for state in (led, orphan):
        refused = cancelled(state)
        assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_REPLICA_ASSIGNMENT
        assert isinstance(reassigned(state, (2,), EVERYONE), Refused)


def test_those_in_doubt_stay_until_one_of_them_leads() -> None:
    state = PartitionState(NO_LEADER, 5, (), (3, 1), adding=(3,), removing=(1,), last_known_eligible_leaders=(1, 3))
    assert isinstance(cancelled(state), Refused)
    assert isinstance(reassigned(state, (2, 1), EVERYONE), Refused)
    assert isinstance(reassigned(state, (3, 2), EVERYONE), PartitionState)


def test_a_new_target_replaces_one_under_way() -> None:
    state = PartitionState(1, 5, (1, 2, 3), (3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    after = reassigned(state, (4, 5), EVERYONE)
    assert after == PartitionState(1, 5, (1, 2), (4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    assert isinstance(after, PartitionState) and target_of(after) == (4, 5)


@pytest.mark.parametrize("target", [(), (1, 1), (-1,), (1, 9)])
def test_impossible_targets_are_refused(target: tuple[int, ...]) -> None:
    refused = reassigned(PartitionState(1, 5, (1,), (1, 2)), target, EVERYONE)
    assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_REPLICA_ASSIGNMENT


def test_dead_and_draining_brokers_get_no_replica_but_may_keep_theirs() -> None:
    store = cluster(TopicSettings(), 1, 2)
    store.tell(store.lose(2), store.lose(5), SetDraining(100, 4, True))
    for target in ((1, 5), (1, 4)):
        refusal = wish(store, *target)
        assert refusal is not None and str(target[1]) in refusal.text
    assert wish(store, 1, 2, 3) is None
    assert store.state("t").adding == (3,)


def test_a_dead_replica_that_stays_holds_the_reassignment_up_until_it_is_back() -> None:
    store = cluster(TopicSettings(), 1, 2)
    store.tell(store.lose(2))
    assert wish(store, 2, 3) is None
    assert alter(store, 1, 3) is None
    assert store.state("t").removing == (1,)
    store.tell(store.register(2))
    refusal = alter(store, 1, 2, 3)
    assert refusal is not None and refusal.problem is Problem.NEW_LEADER_ELECTED
    assert (store.state("t").leader, store.state("t").replicas) == (2, (2, 3))


def test_an_unknown_partition_is_said() -> None:
    store = cluster(TopicSettings(), 1)
    store.tell(AlterReassignments(1, (ReassignmentWish(key("t", 7), (1,)), ReassignmentWish(key("u"), None))))
    problems = [row.refusal.problem for row in store.answers[1].rows if row.refusal is not None]
    assert problems == [Problem.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_the_death_of_the_only_member_leaves_the_reassignment_as_it_is() -> None:
    store = cluster(TopicSettings(), 1)
    assert wish(store, 2) is None
    store.tell(store.lose(1))
    state = store.state("t")
    assert (state.leader, state.eligible_leaders, state.adding, state.removing) == (NO_LEADER, (1,), (2,), (1,))


def test_a_throttle_ends_with_the_move_however_that_ends() -> None:
    store = cluster(TopicSettings(2), 1, 2, 3)
    assert wish(store, 1, 2, 4, rate=5_000) is None
    assert store.state("t").throttled_rate == 5_000
    assert wish(store, 1, 2, 4, rate=7_000) is None, "to the same replicas, at another rate"
    assert (store.state("t").throttled_rate, store.state("t").adding) == (7_000, (4,))
    assert alter(store, 1, 2, 3, 4) is None
    assert (store.state("t").throttled_rate, store.state("t").replicas) == (0, (1, 2, 4))
    assert wish(store, 1, 2, 5, rate=5_000) is None
    assert wish(store, cancel=True) is None
    assert store.state("t").throttled_rate == 0
    assert wish(store, 2, 1, 4, rate=5_000) is None, "another order alone copies nothing"
    assert store.state("t").throttled_rate == 0
