"""What a leader may ask for, and how it is refused."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.cluster.store_model import ControlledStore, key

from penstock.cluster.core.effects import Answer, Row
from penstock.cluster.core.election import TopicSettings
from penstock.cluster.core.events import (
    AlterPartition,
    AlterReassignments,
    BrokerFoundDead,
    BrokerStopping,
    IsrChange,
    IsrMember,
    ReassignmentWish,
)
from penstock.coordination.interface import Replace
from penstock.coordination.paths import NO_EPOCH, NO_LEADER, PARTITION
from penstock.errors import Problem


@pytest.fixture
def store() -> ControlledStore:
    """Broker 1 leads, 1 and 2 are in sync, 3 is back and has caught up; 4 has no replica."""
    store = ControlledStore()
    store.start()
    for node_id in (1, 2, 3, 4):
        store.tell(store.register(node_id))
    store.tell(store.create_topic("t", TopicSettings(2), (1, 2, 3)))
    store.tell(store.lose(3), store.register(3))
    assert store.state("t").isr == (1, 2)
    return store


def ask(store: ControlledStore, *isr: IsrMember, node_id: int = 1, leader_epoch: int = 0, behind: int = 0) -> Row:
    change = IsrChange(store.topics["t"][0], 0, leader_epoch, store.partition("t").version - behind, isr)
    answer = send(store, change, node_id=node_id)
    assert answer.refusal is None
    return answer.rows[0]


def send(store: ControlledStore, *changes: IsrChange, node_id: int = 1, broker_epoch: int | None = None) -> Answer:
    request_id = len(store.answers) + 1
    epoch = store.epoch(node_id) if broker_epoch is None else broker_epoch
    store.tell(AlterPartition(request_id, node_id, epoch, changes))
    return store.answers[request_id]


def member(store: ControlledStore, node_id: int) -> IsrMember:
    return IsrMember(node_id, store.epoch(node_id))


def recorded(node_id: int) -> IsrMember:
    return IsrMember(node_id, NO_EPOCH)


def problem(row: Row) -> Problem | None:
    return None if row.refusal is None else row.refusal.problem


def test_who_left_is_forgotten_when_the_leader_speaks_again(store: ControlledStore) -> None:
    store.tell(store.create_topic("os", TopicSettings(1, acknowledges_unsynced=True), (1, 2)))
    for isr, remembered in (((1,), (2,)), ((1,), ())):
        version = store.partition("os").version
        send(store, IsrChange(store.topics["os"][0], 0, 0, version, tuple(map(recorded, isr))))
        state = store.state("os")
        assert (state.isr, state.last_known_eligible_leaders) == (isr, remembered)


def test_a_leader_that_makes_room_makes_nobody_dispensable(store: ControlledStore) -> None:
    """Its log has failed or has a hole, and the next one may have lost power together with who is remembered."""
    store.tell(store.create_topic("os", TopicSettings(1, acknowledges_unsynced=True), (1, 2, 3)))
    store.tell(store.lose(3))
    assert store.state("os").last_known_eligible_leaders == (3,)
    send(store, IsrChange(store.topics["os"][0], 0, 0, store.partition("os").version, (recorded(2),)))
    state = store.state("os")
    assert (state.leader, set(state.last_known_eligible_leaders)) == (2, {1, 3})
    send(store, IsrChange(store.topics["os"][0], 0, 1, store.partition("os").version, (recorded(2),)), node_id=2)
    assert store.state("os").last_known_eligible_leaders == ()


def test_who_left_because_it_has_lost_something_does_not_lead_for_having_been_there(store: ControlledStore) -> None:
    """Below min ISR: others that leave are eligible."""
    send(store, IsrChange(store.topics["t"][0], 0, 0, store.partition("t").version, (recorded(1),), lost=(2,)))
    assert (store.state("t").isr, store.state("t").eligible_leaders) == ((1,), ())
    store.tell(store.lose(1))
    assert (store.state("t").leader, store.state("t").eligible_leaders) == (NO_LEADER, (1,))


def test_who_is_eligible_and_has_lost_something_is_eligible_no_more(store: ControlledStore) -> None:
    store.tell(store.lose(2), store.register(2))
    assert (store.state("t").isr, store.state("t").eligible_leaders) == ((1,), (2,))
    send(store, IsrChange(store.topics["t"][0], 0, 0, store.partition("t").version, (recorded(1),), lost=(2,)))
    assert (store.state("t").isr, store.state("t").eligible_leaders) == ((1,), ())


def test_who_has_caught_up_joins(store: ControlledStore) -> None:
    before = store.partition("t")
    row = ask(store, recorded(1), recorded(2), member(store, 3))
    assert row.node == store.partition("t")
    assert (store.state("t").isr, store.partition("t").version) == ((1, 2, 3), before.version + 1)
    assert store.published[-1].partitions[0].node == row.node


def test_an_answer_has_all_that_was_done_with_the_partition_in_its_transaction(store: ControlledStore) -> None:
    """Else a leader would take another state for that of the same version, and never hear of the right one."""
    on_its_way = store.controller.step(store.register(5), 0)
    change = IsrChange(store.topics["t"][0], 0, 0, store.partition("t").version, (recorded(1), recorded(2)))
    store.tell(AlterPartition(100, 1, store.epoch(1), (change,)))
    store.tell(AlterReassignments(101, (ReassignmentWish(key("t"), (2, 1)),)))
    assert 100 not in store.answers
    store.carry_out(on_its_way)
    assert store.answers[100].rows[0].node == store.partition("t")
    assert store.state("t").replicas == (2, 1)


def test_who_lags_leaves_and_is_eligible_below_min_isr(store: ControlledStore) -> None:
    assert problem(ask(store, recorded(1))) is None
    assert (store.state("t").isr, store.state("t").eligible_leaders) == ((1,), (2,))
    assert problem(ask(store, recorded(1), member(store, 3))) is None
    assert (store.state("t").isr, store.state("t").eligible_leaders) == ((1, 3), ())


def test_what_changes_nothing_raises_the_version_so_that_older_copies_are_void(store: ControlledStore) -> None:
    before = store.partition("t")
    assert problem(ask(store, recorded(1), recorded(2))) is None
    assert store.partition("t") == before._replace(version=before.version + 1)
    assert problem(ask(store, recorded(1), behind=1)) is Problem.INVALID_UPDATE_VERSION


def test_whoever_joins_must_have_fetched_in_its_newest_life(store: ControlledStore) -> None:
    earlier = member(store, 3)
    store.tell(store.register(3))
    for joining in (earlier, recorded(3)):
        assert problem(ask(store, recorded(1), recorded(2), joining)) is Problem.INELIGIBLE_REPLICA
    assert problem(ask(store, recorded(1), recorded(2), member(store, 3))) is None


def test_dead_and_stopping_brokers_do_not_join(store: ControlledStore) -> None:
    joining = member(store, 3)
    store.tell(BrokerStopping(100, 3, store.epoch(3)))
    assert problem(ask(store, recorded(1), recorded(2), joining)) is Problem.INELIGIBLE_REPLICA
    store.tell(BrokerFoundDead(3, store.epoch(3)))
    assert problem(ask(store, recorded(1), recorded(2), joining)) is Problem.INELIGIBLE_REPLICA


def test_a_stopping_leader_lets_another_in_and_hands_over_with_that() -> None:
    store = ControlledStore()
    store.start()
    store.tell(store.register(1), store.register(2), store.create_topic("t", TopicSettings(), (1, 2)))
    store.tell(store.lose(2), store.register(2), BrokerStopping(100, 1, store.epoch(1)))
    assert store.answers[100].leaderships == 1
    row = ask(store, recorded(1), member(store, 2))
    assert problem(row) is Problem.NEW_LEADER_ELECTED
    assert (store.state("t").leader, store.state("t").isr, store.state("t").leader_epoch) == (2, (2,), 1)


def test_stale_leaders_and_versions(store: ControlledStore) -> None:
    assert problem(ask(store, recorded(1), behind=1)) is Problem.INVALID_UPDATE_VERSION
    assert problem(ask(store, recorded(1), behind=-1)) is Problem.NOT_CONTROLLER
    assert problem(ask(store, recorded(1), leader_epoch=1)) is Problem.NOT_CONTROLLER
    assert problem(ask(store, recorded(2), node_id=2)) is Problem.INVALID_REQUEST
    store.tell(store.lose(1), store.register(1))
    assert store.state("t").leader == 2
    assert problem(ask(store, recorded(1))) is Problem.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("isr", [(2, 4), (1, 1), (1, 4)])
def test_an_isr_that_cannot_be_is_refused(store: ControlledStore, isr: tuple[int, ...]) -> None:
    assert problem(ask(store, *(member(store, node_id) for node_id in isr))) is Problem.INVALID_REQUEST


def test_unknown_topics_and_partitions_are_said_row_by_row(store: ControlledStore) -> None:
    topic_id, version = store.topics["t"][0], store.partition("t").version
    good = IsrChange(topic_id, 0, 0, version, (recorded(1),))
    answer = send(store, good._replace(topic_id=UUID(int=99)), good._replace(partition=5), good)
    assert [problem(row) for row in answer.rows] == [
        Problem.UNKNOWN_TOPIC_ID,
        Problem.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ]
    assert store.state("t").isr == (1,)


def test_an_earlier_life_of_the_leader_is_refused_as_a_whole(store: ControlledStore) -> None:
    change = IsrChange(store.topics["t"][0], 0, 0, store.partition("t").version, (recorded(1),))
    answer = send(store, change, broker_epoch=store.epoch(1) - 1)
    assert answer.refusal is not None and answer.refusal.problem is Problem.STALE_BROKER_EPOCH and not answer.rows
    assert store.state("t").isr == (1, 2)


def test_a_leader_that_leaves_the_isr_is_followed_by_one_of_it(store: ControlledStore) -> None:
    row = ask(store, recorded(2))
    assert problem(row) is Problem.NEW_LEADER_ELECTED
    state = store.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2,))
    # It has all that was committed, and the ISR is too small to commit more without it.
    assert state.eligible_leaders == (1,)


def test_a_leader_stays_while_nobody_else_is_in_sync_and_alive(store: ControlledStore) -> None:
    before = store.partition("t")
    assert problem(ask(store)) is Problem.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert problem(ask(store, member(store, 3))) is Problem.ELIGIBLE_LEADERS_NOT_AVAILABLE
    store.tell(BrokerStopping(99, 2, store.epoch(2)))
    assert store.state("t").isr == (1,)
    assert problem(ask(store, recorded(2))) is not None
    assert store.state("t").leader == before.state.leader


def test_a_leader_that_knows_more_has_everything_read_anew(store: ControlledStore) -> None:
    state, version = store.partition("t")
    assert store.commit([Replace("/topics/t/0", PARTITION.encode(state), version)]) is not None
    assert problem(ask(store, recorded(1), recorded(2))) is Problem.NOT_CONTROLLER
    assert problem(ask(store, recorded(1), recorded(2))) is None
