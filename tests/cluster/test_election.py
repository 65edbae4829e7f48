"""Which state follows from who is alive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.cluster.core.election import (
    Choice,
    Electorate,
    LogEnd,
    TopicSettings,
    candidates_in_doubt,
    changed,
    elected_by_log_end,
    new_partition,
    proven,
    settled,
    without,
)
from penstock.coordination.paths import NO_LEADER, PartitionState

PLAIN = TopicSettings()
MIN_2 = TopicSettings(min_insync_replicas=2)
OS = TopicSettings(acknowledges_unsynced=True)
UNCLEAN = TopicSettings(unclean_leader_election=True)
ALL = Electorate({1, 2, 3, 4})


def led_by_1(min_isr: int = 1) -> PartitionState:
    return PartitionState(1, 5, (1, 2, 3), (1, 2, 3), min_insync_replicas=min_isr)


def live(*nodes: int) -> Electorate:
    return Electorate(set(nodes))


def test_nothing_changes_while_all_are_alive() -> None:
    state = led_by_1()
    assert settled(state, ALL, PLAIN) is state


def test_the_next_leader_is_the_first_replica_that_is_in_sync_and_alive() -> None:
    state = PartitionState(3, 5, (3, 1), (2, 1, 3))
    after = settled(state, live(1, 2), PLAIN)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (1,))


@pytest.mark.parametrize(("min_isr", "eligible"), [(1, ()), (2, (2, 3)), (3, (2, 3))])
def test_who_leaves_an_isr_that_gets_too_small_stays_eligible(min_isr: int, eligible: tuple[int, ...]) -> None:
    after = settled(led_by_1(min_isr), live(1), TopicSettings(min_isr))
    assert (after.isr, after.eligible_leaders, after.leader_epoch) == ((1,), eligible, 5)


def test_the_last_member_stays_eligible_even_with_min_isr_1() -> None:
    state = PartitionState(1, 5, (1,), (1, 2))
    after = settled(state, live(2), PLAIN)
    assert (after.leader, after.isr, after.eligible_leaders, after.last_known_leader) == (NO_LEADER, (), (1,), 1)
    back = settled(after, live(1, 2), PLAIN)
    assert (back.leader, back.isr, back.eligible_leaders, back.last_known_leader) == (1, (1,), (), NO_LEADER)
    assert (after.leader_epoch, back.leader_epoch) == (6, 7)


def test_the_last_known_leader_is_remembered_while_nobody_leads() -> None:
    state = settled(PartitionState(1, 5, (1, 2), (1, 2), min_insync_replicas=2), live(), MIN_2)
    assert (state.last_known_leader, state.eligible_leaders) == (1, (1, 2))
    assert settled(state, live(), MIN_2) is state


def test_nobody_is_eligible_any_more_once_the_isr_is_large_enough() -> None:
    state = PartitionState(1, 5, (1,), (1, 2, 3), eligible_leaders=(2,), min_insync_replicas=2)
    after = changed(state, state, (1, 3), ALL, MIN_2)
    assert (after.isr, after.eligible_leaders, after.leader_epoch) == ((1, 3), (), 5)


def test_who_joins_is_not_eligible_besides() -> None:
    state = PartitionState(1, 5, (1,), (1, 2, 3), eligible_leaders=(2, 3), min_insync_replicas=3)
    after = changed(state, state, (1, 2), ALL, TopicSettings(3))
    assert (after.isr, after.eligible_leaders) == ((1, 2), (3,))


def test_a_lower_min_isr_ends_eligibility_in_the_same_change() -> None:
    state = PartitionState(1, 5, (1,), (1, 2), eligible_leaders=(2,), min_insync_replicas=2)
    after = settled(state, ALL, PLAIN)
    assert (after.min_insync_replicas, after.eligible_leaders, after.leader_epoch) == (1, (), 5)


def test_a_higher_min_isr_makes_nobody_eligible_who_left_before() -> None:
    state = PartitionState(1, 5, (1,), (1, 2))
    assert settled(state, ALL, MIN_2) == replace(state, min_insync_replicas=2)


def test_min_isr_is_at_most_the_number_of_replicas() -> None:
    assert settled(PartitionState(1, 5, (1,), (1,)), ALL, TopicSettings(3)).min_insync_replicas == 1
    growing = PartitionState(1, 5, (1,), (1, 2, 3), adding=(2, 3))
    assert settled(growing, ALL, MIN_2) is growing


def test_an_unclean_election_needs_permission() -> None:
    state = PartitionState(1, 5, (1,), (1, 2, 3))
    assert settled(state, live(3), PLAIN).leader == NO_LEADER
    for after in (settled(state, live(3), UNCLEAN), settled(state, live(3), PLAIN, choice=Choice.UNCLEAN)):
        assert (after.leader, after.isr, after.eligible_leaders, after.leader_epoch) == (3, (3,), (), 6)


def test_someone_eligible_is_preferred_to_an_unclean_election() -> None:
    state = PartitionState(NO_LEADER, 5, (), (1, 2, 3), eligible_leaders=(3,), last_known_leader=3)
    assert settled(state, live(1, 3), UNCLEAN).leader == 3


def test_the_preferred_leader_leads_when_it_is_asked_for_and_in_sync() -> None:
    state = PartitionState(2, 5, (1, 2), (1, 2, 3))
    assert settled(state, ALL, PLAIN) is state
    after = settled(state, ALL, PLAIN, choice=Choice.PREFERRED)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (1, 2))
    behind = PartitionState(2, 5, (2, 3), (1, 2, 3))
    assert settled(behind, ALL, PLAIN, choice=Choice.PREFERRED) is behind


def test_who_stops_leaves_but_not_as_the_last() -> None:
    stopping = Electorate({1, 2, 3}, {1})
    after = settled(led_by_1(), stopping, PLAIN)
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 6)
    alone = PartitionState(1, 5, (1,), (1, 2))
    assert settled(alone, stopping, PLAIN) is alone


def test_who_joins_the_cluster_anew_stays_in_sync_but_does_not_lead() -> None:
    joining = Electorate({2, 3}, frozenset(), {1})
    after = settled(led_by_1(), joining, PLAIN)
    assert (after.leader, after.isr, after.leader_epoch) == (2, (1, 2, 3), 6)
    alone = settled(PartitionState(1, 5, (1,), (1, 2)), joining, PLAIN)
    assert (alone.leader, alone.isr, alone.eligible_leaders) == (NO_LEADER, (), (1,))


def test_a_new_life_of_the_leader_gets_a_new_epoch() -> None:
    after = settled(led_by_1(), ALL, PLAIN, new_life=True)
    assert after == replace(led_by_1(), leader_epoch=6)


def test_of_those_in_doubt_the_one_with_the_highest_log_end_leads() -> None:
    state = led_by_1()
    for node_id in (1, 2, 3):
        assert not candidates_in_doubt(state)
        state = settled(without(state, node_id, keeps_doubtful=True), Electorate({1, 2, 3} - {node_id}), OS)
    assert (state.leader, candidates_in_doubt(state)) == (NO_LEADER, (1, 2, 3))
    assert settled(state, ALL, OS) is state
    ends = {1: LogEnd(4, 90), 2: LogEnd(5, 70), 3: LogEnd(5, 60)}
    after = elected_by_log_end(state, ends, ALL, OS)
    # It may go down again before it has led: then they are asked once more.
    assert (after.leader, after.isr, after.last_known_eligible_leaders) == (2, (2,), (1, 3))
    assert after.leader_epoch == state.leader_epoch + 1


@pytest.mark.parametrize(("written_end", "leader"), [(89, 3), (90, 1), (91, 1)])
def test_a_log_of_which_all_was_deleted_leads_if_it_ends_behind_the_others(written_end: int, leader: int) -> None:
    """What the others would write again in between had been read under those offsets already."""
    state = PartitionState(NO_LEADER, 5, (), (1, 2, 3), last_known_eligible_leaders=(1, 2, 3))
    ends = {1: LogEnd(4, written_end), 2: LogEnd(-1, 0), 3: LogEnd(-1, 90)}
    assert elected_by_log_end(state, ends, ALL, OS).leader == leader


def test_who_leaves_is_remembered_where_those_that_stay_may_have_lost_something() -> None:
    state = settled(led_by_1(), live(2, 3), OS)
    assert (state.leader, state.isr, state.last_known_eligible_leaders) == (2, (2, 3), (1,))
    assert settled(led_by_1(), live(2, 3), PLAIN).last_known_eligible_leaders == ()
    # Eligible is more than remembered; of several, who does not lead is eligible no more.
    state = settled(state, live(), OS)
    assert (state.eligible_leaders, state.last_known_eligible_leaders) == ((2, 3), (1,))
    state = settled(state, live(3), OS)
    assert (state.leader, state.eligible_leaders, state.last_known_eligible_leaders) == (3, (), (1, 2))
    assert settled(state, live(1, 2, 3), OS) is state
    assert proven(state).last_known_eligible_leaders == ()


def test_unclean_elections_wait_for_the_answer_while_all_in_doubt_are_there_to_give_it() -> None:
    state = PartitionState(NO_LEADER, 5, (), (1, 2, 3), last_known_eligible_leaders=(2, 3))
    assert settled(state, ALL, UNCLEAN) is state
    assert settled(state, live(1, 3), UNCLEAN).leader == 3
    assert settled(state, ALL, PLAIN, choice=Choice.UNCLEAN).leader == 2


def test_who_lost_its_disk_is_in_doubt_no_more() -> None:
    state = PartitionState(NO_LEADER, 5, (), (1, 2), last_known_eligible_leaders=(1, 2))
    after = settled(without(state, 1, keeps_doubtful=False), ALL, OS)
    assert (after.leader, after.isr) == (2, (2,))


def test_a_new_partition_begins_with_all_that_are_alive() -> None:
    state = new_partition((3, 1, 2), Electorate({1, 2, 3}, {3}), MIN_2)
    assert state == PartitionState(1, 0, (1, 2), (3, 1, 2), min_insync_replicas=2)
    assert new_partition((3,), live(1), MIN_2) is None


nodes = st.integers(0, 4)
node_sets = st.sets(nodes)
settings = st.builds(TopicSettings, st.integers(1, 3), st.booleans(), st.booleans())


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    """Any that the rules allow."""
    replicas = tuple(draw(st.lists(nodes, min_size=1, max_size=5, unique=True)))
    members = draw(st.lists(st.sampled_from(replicas), unique=True))
    isr = tuple(members[: draw(st.integers(0, len(members)))])
    rest = [replica for replica in members if replica not in isr]
    cut = draw(st.integers(0, len(rest)))
    min_isr = draw(st.integers(1, 3))
    moving = draw(st.lists(st.sampled_from(replicas), unique=True, max_size=len(replicas) - 1))
    middle = draw(st.integers(0, len(moving)))
    return PartitionState(
        leader=draw(st.sampled_from(isr)) if isr else NO_LEADER,
        leader_epoch=draw(st.integers(0, 9)),
        isr=isr,
        replicas=replicas,
        eligible_leaders=tuple(rest[:cut]) if len(isr) < min_isr else (),
        adding=tuple(moving[:middle]),
        removing=tuple(moving[middle:]),
        min_insync_replicas=min_isr,
        last_known_eligible_leaders=tuple(rest[cut:]),
    )


@given(states(), node_sets, node_sets, node_sets, settings, st.sampled_from(Choice), st.booleans())
def test_what_holds_of_every_election(
    state: PartitionState,
    alive: set[int],
    stopping: set[int],
    joining: set[int],
    topic: TopicSettings,
    choice: Choice,
    new_life: bool,
) -> None:
    electorate = Electorate(alive - joining, stopping & alive - joining, joining)
    after = settled(state, electorate, topic, choice=choice, new_life=new_life)
    assert (after.leader in after.isr) if after.isr else after.leader == NO_LEADER
    members = [*after.isr, *after.eligible_leaders, *after.last_known_eligible_leaders]
    assert len(set(members)) == len(members) and set(members) <= set(after.replicas) <= set(state.replicas)
    assert len(after.isr) < after.min_insync_replicas or not after.eligible_leaders
    assert after.leader == NO_LEADER or after.leader in electorate.live
    assert after.leader == state.leader or after.leader_epoch > state.leader_epoch
    assert after.leader_epoch - state.leader_epoch in (0, 1)
    may_be_unclean = topic.unclean_leader_election or choice is Choice.UNCLEAN
    if not may_be_unclean:
        had_everything = {*state.isr, *state.eligible_leaders}
        assert {*after.isr, *after.eligible_leaders} <= had_everything or len(state.last_known_eligible_leaders) == 1
        if not after.isr:
            assert not {*after.eligible_leaders} & (electorate.live - electorate.stopping)
    # The controller looks again after each commit. Whoever is elected from outside of the ISR may be all that a
    # reassignment waited for: that ends with the second.
    again = settled(after, electorate, topic, choice=choice)
    is_moving = bool(after.adding or after.removing)
    assert again == after or (after.leader not in state.isr and is_moving and not again.adding + again.removing)
    assert settled(again, electorate, topic, choice=choice) == again


@given(states(), nodes, st.booleans(), settings)
def test_who_may_lack_something_is_neither_in_sync_nor_eligible(
    state: PartitionState, node_id: int, keeps_doubtful: bool, topic: TopicSettings
) -> None:
    left = without(state, node_id, keeps_doubtful=keeps_doubtful)
    assert node_id not in (*left.isr, *left.eligible_leaders)
    after = settled(left, Electorate({0, 1, 2, 3, 4} - {node_id}), topic)
    assert node_id not in (*after.isr, *after.eligible_leaders)
    assert keeps_doubtful or node_id not in after.last_known_eligible_leaders
