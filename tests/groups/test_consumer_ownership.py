"""A partition has one owner in a KIP-848 group, whatever gets lost or comes late. docs/adr/0004 has the argument."""

from __future__ import annotations

from tests.groups.consumer_world import World

from penstock.errors import Problem


def names(world: World, member_id: str) -> set[int]:
    """What the coordinator counts as the member's."""
    current = world.group().members[member_id].current
    found = (world.names(part) or {} for part in (current.assigned, current.pending_revocation))
    return {index for part in found for indexes in part.values() for index in indexes}


def test_what_a_member_does_not_list_yet_it_may_still_begin_with() -> None:
    """Its heartbeat got lost while it worked on what it was told, so it says again what it has finished: nothing."""
    world = World({"orders": 2})
    told = world.join("a")
    other = world.join("b")
    again = world.beat("a", told.member_epoch, {})
    assert world.names(again.assignment) == {"orders": {0, 1}}
    assert names(world, "a") == {0, 1}
    assert not world.beat("b", other.member_epoch).assignment


def test_a_member_that_was_never_told_hears_of_it_before_it_is_taken_away() -> None:
    """If it were told first what it has already, it would have nothing to list, and others would wait for ever."""
    world = World({"orders": 2})
    epoch = world.join("a").member_epoch
    world.beat("a", epoch, {"orders": {0, 1}})
    world.set_topics({"orders": 3})
    world.beat("a", epoch)
    world.join("b")
    world.join("c")
    again = world.beat("a", epoch, {"orders": {0, 1}})
    assert world.names(again.assignment) == {"orders": {0, 1, 2}}
    revoked = world.beat("a", again.member_epoch, {"orders": {0, 1, 2}})
    assert world.names(revoked.assignment) == {"orders": {0}}


def test_a_heartbeat_that_was_long_under_way_frees_nothing() -> None:
    """It was sent when the member had nothing yet, and comes when it is told to give up what it has by now."""
    world = World({"orders": 2, "bills": 1})
    first = world.join("a").member_epoch
    second = world.join("b").member_epoch
    first = world.beat("a", first, {"orders": {0, 1}}).member_epoch
    first = world.beat("a", first, {"orders": {0}}).member_epoch
    assert world.names(world.beat("b", second).assignment) == {"orders": {1}}
    world.beat("b", second, {"orders": {1}}, topics=["bills"])
    assert world.beat("b", second, {}).problem is None
    assert names(world, "b") == {1}
    assert not world.beat("a", first).assignment


def test_a_join_that_was_long_under_way_frees_nothing_and_fences_whom_it_names() -> None:
    world = World({"orders": 2})
    epoch = world.join("a").member_epoch
    world.beat("a", epoch, {"orders": {0, 1}})
    waits = world.join("b").member_epoch
    world.join("a")
    for _ in range(3):
        waits = world.beat("b", waits).member_epoch
    assert names(world, "a") == {0, 1}
    assert world.beat("a", epoch).problem is Problem.FENCED_MEMBER_EPOCH

    back = world.join("a")
    assert (back.problem, world.names(back.assignment)) == (None, {"orders": {0}})
    assert not world.beat("b", waits).assignment
    world.beat("a", back.member_epoch)
    assert world.names(world.beat("b", waits).assignment) == {"orders": {1}}


def test_a_join_that_is_repeated_before_anything_came_of_it_changes_nothing() -> None:
    world = World({"orders": 2})
    epoch = world.join("a").member_epoch
    world.beat("a", epoch, {"orders": {0, 1}})
    world.join("b")
    back = world.join("a")
    written = len(world.runner.log)
    assert world.join("a") == back
    assert len(world.runner.log) == written
