"""One member's steps towards its target."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.groups.consumer_world import some, topic

from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_reconcile import (
    CurrentAssignment,
    Goal,
    MemberState,
    reconcile,
    reconcile_joined,
    start_over,
)
from penstock.groups.core.partition_sets import difference, intersection, is_subset, union

TOPIC = topic(1)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def goal(target: Partitions, taken: tuple[int, ...] = (), exists: bool = True) -> Goal:
    return Goal(10, target, lambda _, index: index not in taken, lambda _: exists)


def at(epoch: int, *indexes: int, state: MemberState = STABLE) -> CurrentAssignment:
    """A member that has been there for a while and has listed what it has."""
    return CurrentAssignment(epoch, epoch - 2, state, some(*indexes), told_epoch=epoch)


def test_a_member_at_its_target_stays_as_it_is() -> None:
    current = at(10, 0, 1)
    assert reconcile(current, goal(some(0, 1)), None) is current


def test_free_partitions_are_given_at_once_and_are_to_be_listed() -> None:
    joined = reconcile_joined(CurrentAssignment(), goal(some(0, 1)), some())
    assert joined == CurrentAssignment(10, 0, STABLE, some(0, 1), some(), some(0, 1), 10)
    assert joined.listed(some(1), 10).unlisted == some(0)
    assert joined.listed(None, 10) is joined


def test_what_others_own_is_waited_for() -> None:
    waiting = reconcile_joined(CurrentAssignment(), goal(some(0, 1), taken=(1,)), some()).listed(some(0), 10)
    assert waiting == CurrentAssignment(10, 0, UNRELEASED, some(0), told_epoch=10)
    assert reconcile(waiting, goal(some(0, 1), taken=(1,)), None) is waiting
    given_more = reconcile(waiting, goal(some(0, 1)), None)
    assert given_more == CurrentAssignment(10, 10, STABLE, some(0, 1), some(), some(1), 10)


def test_nothing_new_is_given_before_the_old_is_given_up() -> None:
    revoking = reconcile(at(8, 0, 1), goal(some(1, 2)), some(0, 1))
    assert revoking == CurrentAssignment(9, 8, UNREVOKED, some(1), some(0), some(), 8)
    assert reconcile(revoking, goal(some(1, 2)), None) is revoking
    assert reconcile(revoking, goal(some(1, 2)), some(0, 1)) is revoking
    after = reconcile(revoking, goal(some(1, 2)), some(1))
    assert after == CurrentAssignment(10, 9, STABLE, some(1, 2), some(), some(2), 10)


def test_a_list_from_before_the_revocation_proves_nothing() -> None:
    assert reconcile(at(8, 0, 1), goal(some(1)), some(1)).pending_revocation == some(0)


def test_a_revocation_that_leads_to_another_moves_the_epoch_on() -> None:
    revoking = CurrentAssignment(5, 4, UNREVOKED, some(1, 2), some(0))
    assert reconcile(revoking, goal(some(2)), some(1, 2)) == CurrentAssignment(6, 5, UNREVOKED, some(2), some(1))


def test_what_was_never_listed_has_to_be_listed_before_it_is_taken_away() -> None:
    unlisted = replace(at(8, 0, 1), unlisted=some(0))
    waiting = reconcile(unlisted, goal(some(1)), some(1))
    assert (waiting.member_epoch, waiting.state, waiting.assigned) == (8, UNREVOKED, some(0, 1))
    assert waiting.pending_revocation == some()
    assert reconcile(waiting, goal(some(1)), some(1)) is waiting
    revoking = reconcile(waiting.listed(some(0, 1), 8), goal(some(1)), some(0, 1))
    assert (revoking.member_epoch, revoking.assigned, revoking.pending_revocation) == (9, some(1), some(0))


def test_what_has_gone_with_its_topic_needs_not_be_listed() -> None:
    unlisted = replace(at(8, 0, 1), unlisted=some(0, 1))
    assert reconcile(unlisted, goal(some(), exists=False), None) == CurrentAssignment(10, 8, told_epoch=8)


def test_a_wait_that_has_become_needless_ends() -> None:
    waiting = reconcile(replace(at(8, 0, 1), unlisted=some(0)), goal(some(1)), None)
    assert reconcile(waiting, goal(some(0, 1)), None).state is STABLE


def test_a_list_from_before_more_was_told_says_nothing_about_it() -> None:
    """It may be left from when the member had that partition before."""
    current = CurrentAssignment(10, 9, STABLE, some(0), some(), some(0), 10)
    assert current.listed(some(0), 9) is current
    assert replace(current, told_epoch=9).listed(some(0), 9).unlisted == some()


def test_who_joins_anew_is_believed_when_it_speaks_at_the_epoch_that_it_was_told() -> None:
    back = start_over(CurrentAssignment(7, 6, UNREVOKED, some(0, 1), some(2)), goal(some(1, 2, 3)))
    assert back == CurrentAssignment(8, 0, UNREVOKED, some(1, 2), some(0), some(1, 2), 8)
    assert back.is_new
    after = reconcile(back, goal(some(1, 2, 3)), None)
    assert after == CurrentAssignment(10, 8, STABLE, some(1, 2, 3), some(), some(1, 2, 3), 10)
    assert start_over(at(8, 0), goal(some(0, 1))) == CurrentAssignment(
        10, 0, STABLE, some(0, 1), some(), some(0, 1), 10
    )


def test_classic_members_have_what_they_say_when_they_join() -> None:
    revoking = reconcile_joined(at(8, 0, 1), goal(some(1, 2)), some(0, 1), will_list=False)
    assert (revoking.state, revoking.pending_revocation) == (UNREVOKED, some(0))
    assert reconcile_joined(revoking, goal(some(1, 2)), some(0), will_list=False) is revoking
    after = reconcile_joined(revoking, goal(some(1, 2)), some(1), will_list=False)
    assert (after.state, after.assigned, after.unlisted) == (STABLE, some(1, 2), some())
    assert reconcile_joined(at(8, 0, 1), goal(some(1)), some(1), will_list=False).state is STABLE


@st.composite
def members(draw: st.DrawFn) -> CurrentAssignment:
    """Every partition is the member's own, on its way out, or neither; some of its own it has yet to list."""
    state = draw(st.sampled_from(MemberState))
    places = draw(st.lists(st.sampled_from(["listed", "unlisted", "pending", "elsewhere"]), min_size=6, max_size=6))
    by_place = {place: {i for i, found in enumerate(places) if found == place} for place in places}
    listed, unlisted = by_place.get("listed", set()), by_place.get("unlisted", set())
    pending = by_place.get("pending", set()) if state is UNREVOKED else set()
    return CurrentAssignment(5, 4, state, some(*listed | unlisted), some(*pending), some(*unlisted), 5)


indexes = st.frozensets(st.integers(0, 5)).map(lambda numbers: some(*numbers))


@given(current=members(), target=indexes, owned=st.none() | indexes, others=st.frozensets(st.integers(0, 5)))
def test_a_step_never_gives_what_is_taken_nor_lets_go_of_what_may_be_owned(
    current: CurrentAssignment, target: Partitions, owned: Partitions | None, others: frozenset[int]
) -> None:
    held = union(current.assigned, current.pending_revocation)
    taken = others - held.get(TOPIC, frozenset())
    after = reconcile(current, goal(target, tuple(taken)), owned)
    assert not intersection(after.assigned, some(*taken))
    assert is_subset(after.unlisted, after.assigned)
    assert not intersection(after.pending_revocation, current.unlisted)
    still_held = union(after.assigned, after.pending_revocation)
    freed = difference(held, still_held)
    assert is_subset(freed, current.pending_revocation)
    if freed:
        assert owned is not None
        assert not intersection(owned, current.pending_revocation)
    if freed or difference(after.pending_revocation, current.pending_revocation):
        assert after.member_epoch > current.member_epoch
    if after.state is STABLE:
        assert (after.assigned, after.member_epoch) == (target, 10)
