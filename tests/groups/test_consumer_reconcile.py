"""One member's steps towards its target."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_reconcile import CurrentAssignment, MemberState, is_subset, reconcile, union

TOPIC = UUID(int=1)


def some(*indexes: int) -> Partitions:
    return {TOPIC: frozenset(indexes)} if indexes else {}


def step(
    current: CurrentAssignment, target: Partitions, owned: Partitions | None, taken: tuple[int, ...] = ()
) -> CurrentAssignment:
    return reconcile(
        current, assignment_epoch=9, target=target, owned=owned, is_free=lambda _, index: index not in taken
    )


def test_a_member_at_its_target_stays_as_it_is() -> None:
    current = CurrentAssignment(9, 8, MemberState.STABLE, some(0, 1))
    assert step(current, some(0, 1), None) is current


def test_free_partitions_are_given_at_once() -> None:
    assert step(CurrentAssignment(), some(0, 1), some()) == CurrentAssignment(9, 0, MemberState.STABLE, some(0, 1))


def test_what_others_own_is_waited_for() -> None:
    waiting = step(CurrentAssignment(), some(0, 1), some(), taken=(1,))
    assert waiting == CurrentAssignment(9, 0, MemberState.UNRELEASED_PARTITIONS, some(0))
    assert step(waiting, some(0, 1), None, taken=(1,)) is waiting
    assert step(waiting, some(0, 1), None) == CurrentAssignment(9, 9, MemberState.STABLE, some(0, 1))


def test_nothing_new_is_given_before_the_old_is_given_up() -> None:
    current = CurrentAssignment(8, 7, MemberState.STABLE, some(0, 1))
    revoking = step(current, some(1, 2), None)
    assert revoking == CurrentAssignment(8, 8, MemberState.UNREVOKED_PARTITIONS, some(1), some(0))
    assert step(revoking, some(1, 2), None) is revoking
    assert step(revoking, some(1, 2), some(0, 1)) is revoking
    assert step(revoking, some(1, 2), some(1)) == CurrentAssignment(9, 8, MemberState.STABLE, some(1, 2))


def test_a_revocation_that_leads_to_another_moves_the_epoch_on() -> None:
    revoking = CurrentAssignment(5, 4, MemberState.UNREVOKED_PARTITIONS, some(1, 2), some(0))
    assert step(revoking, some(2), some(1, 2)) == CurrentAssignment(
        6, 5, MemberState.UNREVOKED_PARTITIONS, some(2), some(1)
    )


def test_what_the_member_does_not_own_any_more_needs_no_revocation() -> None:
    current = CurrentAssignment(8, 7, MemberState.STABLE, some(0, 1))
    assert step(current, some(1), some(1)) == CurrentAssignment(9, 8, MemberState.STABLE, some(1))


indexes = st.frozensets(st.integers(0, 5)).map(lambda numbers: some(*numbers))


@given(
    current=st.builds(CurrentAssignment, st.just(5), st.just(4), st.sampled_from(MemberState), assigned=indexes).filter(
        lambda current: current.state is not MemberState.UNREVOKED_PARTITIONS
    ),
    target=indexes,
    owned=st.none() | indexes,
    taken=st.frozensets(st.integers(0, 5)),
)
def test_a_step_never_gives_what_is_taken_nor_lets_go_of_what_may_be_owned(
    current: CurrentAssignment, target: Partitions, owned: Partitions | None, taken: frozenset[int]
) -> None:
    after = step(current, target, owned, taken=tuple(taken - current.assigned.get(TOPIC, frozenset())))
    gained = after.assigned.get(TOPIC, frozenset()) - current.assigned.get(TOPIC, frozenset())
    assert not gained & taken
    assert is_subset(after.assigned, target)
    held = union(after.assigned, after.pending_revocation)
    if owned is None:
        assert is_subset(current.assigned, held)
    if after.state is MemberState.STABLE:
        assert after.assigned == target
        assert after.member_epoch == 9
