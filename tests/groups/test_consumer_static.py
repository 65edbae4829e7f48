"""KIP-848 members with an instance id: they may go and come back, and nobody else can be them."""

from __future__ import annotations

from tests.groups.consumer_world import World

from penstock.errors import Problem


def world_with_static_member() -> World:
    world = World({"orders": 4})
    world.join("a", instance_id="one")
    world.join("b", instance_id="two")
    world.beat("a", 2, {"orders": {0, 1, 2, 3}}, instance_id="one")
    world.beat("a", 3, {"orders": {0, 1}}, instance_id="one")
    assert world.names(world.beat("b", 4, instance_id="two").assignment) == {"orders": {2, 3}}
    assert world.beat("b", 4, {"orders": {2, 3}}, instance_id="two").member_epoch == 4
    return world


def test_a_member_that_comes_back_has_what_it_had_and_nobody_notices() -> None:
    world = world_with_static_member()
    assert world.beat("a", -2, instance_id="one").member_epoch == -2
    assert world.beat("b", 4, instance_id="two").assignment is None
    back = world.join("a2", instance_id="one")
    assert (back.problem, back.member_epoch, world.names(back.assignment)) == (None, 4, {"orders": {0, 1}})
    assert world.beat("b", 4, instance_id="two").assignment is None
    assert world.group().members.keys() == {"a2", "b"}
    assert world.described().state == "Stable"


def test_a_member_that_comes_back_under_its_own_id_is_itself() -> None:
    world = world_with_static_member()
    world.beat("a", -2, instance_id="one")
    assert world.beat("a", 4, instance_id="one").problem is Problem.FENCED_MEMBER_EPOCH
    back = world.join("a", instance_id="one")
    assert (back.problem, back.member_epoch, world.names(back.assignment)) == (None, 6, {"orders": {0, 1}})


def test_what_a_member_said_before_it_left_says_nothing_when_it_is_back_under_its_own_id() -> None:
    """It is told of its partitions anew, and has begun with none when another member joins."""
    world = world_with_static_member()
    world.beat("b", -2, instance_id="two")
    epoch = world.join("b", instance_id="two").member_epoch
    # Long under way: it is from before.
    world.beat("b", 4, {"orders": {2, 3}}, instance_id="two")
    joined = world.join("c")
    told = world.beat("b", epoch, instance_id="two")
    # It begins with what it was told first, and after an answer that got lost it says what it has until then.
    world.beat("b", told.member_epoch, {}, instance_id="two")
    assert world.beat("c", joined.member_epoch).assignment is None, "nothing is free"


def test_a_member_that_stays_away_is_replaced_by_the_others() -> None:
    world = world_with_static_member()
    world.beat("a", -2, instance_id="one")
    for _ in range(9):
        world.runner.advance(5_000)
        told = world.beat("b", 4, instance_id="two")
    assert world.names(told.assignment) == {"orders": {0, 1, 2, 3}}


def test_what_a_leaving_member_had_to_give_up_is_free_at_once() -> None:
    world = World({"orders": 2})
    world.join("a", instance_id="one")
    world.join("b")
    world.beat("a", 2, {"orders": {0, 1}}, instance_id="one")
    world.beat("a", -2, instance_id="one")
    told = world.beat("b", 4)
    assert world.names(told.assignment) == {"orders": {1}}
    world.runner.advance(45_000)
    assert world.group().members.keys() == set()


def test_an_instance_id_in_use_is_not_given_to_another() -> None:
    world = world_with_static_member()
    assert world.join("c", instance_id="one").problem is Problem.UNRELEASED_INSTANCE_ID
    assert world.join("b", instance_id="one").problem is Problem.INVALID_REQUEST


def test_a_replaced_member_is_fenced() -> None:
    world = world_with_static_member()
    world.beat("a", -2, instance_id="one")
    world.join("a2", instance_id="one")
    assert world.beat("a", 4, instance_id="one").problem is Problem.FENCED_INSTANCE_ID
    assert world.beat("a", -1, instance_id="one").problem is Problem.FENCED_INSTANCE_ID
    assert world.beat("a", 4).problem is Problem.UNKNOWN_MEMBER


def test_a_static_member_can_leave_for_good() -> None:
    world = world_with_static_member()
    world.beat("a", -1, instance_id="one")
    assert world.names(world.beat("b", 4, instance_id="two").assignment) == {"orders": {0, 1, 2, 3}}
    assert world.group().static_members == {"two": "b"}


def test_away_members_are_still_away_after_a_restart() -> None:
    world = world_with_static_member()
    world.beat("a", -2, instance_id="one")
    world.restart(compacted=True)
    assert world.join("a2", instance_id="one").member_epoch == 4
