"""KIP-848 heartbeats, one situation at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.groups.consumer_world import GROUP, World

from penstock.errors import Problem
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.limits import GroupLimits

JOIN = ConsumerGroupHeartbeat(
    group_id=GROUP,
    member_id="a",
    member_epoch=0,
    client_id="client",
    client_host="127.0.0.1",
    fresh_id="made-by-the-server",
    rebalance_timeout_ms=1000,
    topic_names=("orders",),
    owned={},
)
BEAT = replace(JOIN, member_epoch=2, rebalance_timeout_ms=-1, topic_names=None, owned=None)


def test_the_first_member_gets_everything() -> None:
    world = World({"orders": 3})
    answer = world.join("a")
    assert (answer.problem, answer.member_id, answer.member_epoch) == (None, "a", 2)
    assert answer.heartbeat_interval_ms == 5000
    assert world.names(answer.assignment) == {"orders": {0, 1, 2}}
    assert world.described().state == "Stable"


def test_a_heartbeat_without_news_writes_nothing_and_repeats_nothing() -> None:
    world = World({"orders": 3})
    world.join("a")
    world.beat("a", 2, {"orders": {0, 1, 2}})
    written = len(world.runner.log)
    answer = world.beat("a", 2)
    assert (answer.problem, answer.assignment) == (None, None)
    assert len(world.runner.log) == written


def test_an_assignment_is_repeated_until_it_has_been_listed() -> None:
    world = World({"orders": 3})
    world.join("a")
    written = len(world.runner.log)
    assert world.names(world.beat("a", 2).assignment) == {"orders": {0, 1, 2}}
    assert len(world.runner.log) == written
    assert world.names(world.beat("a", 2, {"orders": {0, 1}}).assignment) == {"orders": {0, 1, 2}}
    assert world.beat("a", 2, {"orders": {0, 1, 2}}).assignment is None


def test_a_full_heartbeat_is_told_the_assignment_again() -> None:
    world = World({"orders": 1})
    world.join("a")
    event = replace(JOIN, member_epoch=2, owned=world.ids({"orders": {0}}))
    answer = world.runner.ask(event, ConsumerHeartbeatAnswer)
    assert world.names(answer.assignment) == {"orders": {0}}


def test_a_partition_moves_only_after_its_owner_gave_it_up() -> None:
    world = World({"orders": 2})
    world.join("a")
    joined = world.join("b")
    assert (joined.member_epoch, world.names(joined.assignment)) == (4, {})
    assert world.described().state == "Reconciling"

    told = world.beat("a", 2, {"orders": {0, 1}})
    assert (told.member_epoch, world.names(told.assignment)) == (3, {"orders": {0}})
    assert world.beat("b", 4).assignment is None
    assert world.beat("a", 3, {"orders": {0, 1}}).member_epoch == 3
    assert world.beat("b", 4).assignment is None

    assert world.beat("a", 3, {"orders": {0}}).member_epoch == 4
    assert world.names(world.beat("b", 4).assignment) == {"orders": {1}}
    assert world.described().state == "Stable"


def test_a_lost_answer_is_repeated_for_the_previous_epoch() -> None:
    world = World({"orders": 2})
    world.join("a")
    world.join("b")
    told = world.beat("a", 2, {"orders": {0, 1}})
    assert world.beat("a", 2, {"orders": {0, 1}}) == told
    assert world.beat("a", 2) == told, "the very same heartbeat again, as some clients send it"
    done = world.beat("a", 3, {"orders": {0}})
    again = world.beat("a", 3, {"orders": {0}})
    assert (again.problem, again.member_epoch) == (None, done.member_epoch)
    assert world.names(again.assignment) == {"orders": {0}}


def test_a_lost_first_answer_is_repeated() -> None:
    world = World({"orders": 2})
    first = world.join("a")
    written = len(world.runner.log)
    assert world.join("a") == first
    assert len(world.runner.log) == written


@pytest.mark.parametrize("epoch", [1, 2, 6])
def test_a_member_at_another_epoch_is_fenced_and_may_rejoin(epoch: int) -> None:
    world = World({"orders": 2, "bills": 1})
    world.join("a")
    world.beat("a", 2, {"orders": {0, 1}}, topics=["orders", "bills"])
    world.beat("a", 4, {"orders": {0, 1}, "bills": {0}}, topics=["orders"])
    assert world.beat("a", epoch, {"orders": {0, 1}}).problem is Problem.FENCED_MEMBER_EPOCH
    rejoined = world.join("a")
    assert (rejoined.problem, world.names(rejoined.assignment)) == (None, {"orders": {0, 1}})
    assert world.beat("a", rejoined.member_epoch).problem is None


def test_the_previous_epoch_is_no_excuse_for_owning_too_much() -> None:
    world = World({"orders": 2, "bills": 1})
    world.join("a")
    world.beat("a", 2, {"orders": {0, 1}}, topics=["bills"])
    assert world.beat("a", 3, {}).member_epoch == 4
    assert world.beat("a", 3, {"orders": {0}}).problem is Problem.FENCED_MEMBER_EPOCH
    assert world.beat("a", 3, {"bills": {0}}).problem is None


def test_strangers_are_refused() -> None:
    world = World({"orders": 2})
    assert world.beat("a", 1).problem is Problem.UNKNOWN_MEMBER
    world.join("a")
    assert world.beat("b", 1).problem is Problem.UNKNOWN_MEMBER
    assert world.beat("b", -1).problem is Problem.UNKNOWN_MEMBER
    assert world.beat("b", 1, instance_id="one").problem is Problem.UNKNOWN_MEMBER


def test_who_leaves_frees_its_partitions_for_the_next_heartbeat() -> None:
    world = World({"orders": 2})
    world.join("a")
    world.join("b")
    assert world.beat("a", -1).member_epoch == -1
    assert world.described().state == "Assigning"
    assert world.names(world.beat("b", 4).assignment) == {"orders": {0, 1}}


def test_a_group_that_everybody_left_is_empty_and_goes_on() -> None:
    world = World({"orders": 2})
    world.join("a")
    world.beat("a", -1)
    assert world.described().state == "Empty"
    assert world.join("b").member_epoch == 6


def test_a_silent_member_loses_its_session() -> None:
    world = World({"orders": 2})
    world.join("a")
    world.join("b")
    world.runner.advance(44_000)
    world.beat("b", 4)
    world.runner.advance(1_000)
    assert world.names(world.beat("b", 4).assignment) == {"orders": {0, 1}}
    assert world.beat("a", 2).problem is Problem.UNKNOWN_MEMBER


@pytest.mark.parametrize("listed", [{"orders": {0, 1}}, {"orders": {0}}, None])
def test_a_member_that_does_not_list_and_give_up_in_time_is_fenced(listed: dict[str, set[int]] | None) -> None:
    world = World({"orders": 2})
    world.join("a", rebalance_timeout_ms=20_000)
    world.join("b")
    epoch = 2
    for _ in range(4):
        epoch = world.beat("a", epoch, listed).member_epoch
        world.beat("b", 4)
        world.runner.advance(5_000)
    assert epoch == (3 if listed == {"orders": {0, 1}} else 2)
    assert world.beat("a", epoch).problem is Problem.UNKNOWN_MEMBER
    assert world.names(world.beat("b", 4).assignment) == {"orders": {0, 1}}


def test_sessions_and_revocations_start_anew_after_a_restart() -> None:
    world = World({"orders": 2})
    world.join("a", rebalance_timeout_ms=20_000)
    world.join("b")
    world.beat("a", 2, {"orders": {0, 1}})
    world.runner.advance(15_000)
    world.restart()
    written = len(world.runner.log)
    world.runner.advance(15_000)
    assert world.beat("a", 3).problem is None
    assert world.beat("b", 4).problem is None
    assert len(world.runner.log) == written
    world.runner.advance(5_000)
    assert world.beat("a", 3).problem is Problem.UNKNOWN_MEMBER
    world.runner.advance(45_000)
    assert world.described().state == "Empty"


def test_a_restart_brings_no_rebalance() -> None:
    world = World({"orders": 4})
    world.join("a")
    world.join("b")
    world.beat("a", 2, {"orders": {0, 1, 2, 3}})
    world.beat("a", 3, {"orders": {0, 1}})
    world.beat("b", 4)
    before = world.described()
    world.restart(compacted=True)
    assert world.described() == before
    written = len(world.runner.log)
    assert world.beat("a", 4).member_epoch == 4
    assert world.beat("b", 4).member_epoch == 4
    assert len(world.runner.log) == written


def test_without_topics_nobody_loses_anything() -> None:
    world = World({"orders": 4})
    world.join("a")
    world.runner.restart()
    assert world.beat("a", 2).problem is Problem.COORDINATOR_LOADING
    world.beat("a", -1)
    world.tell_topics()
    assert world.names(world.join("b").assignment) == {"orders": {0, 1, 2, 3}}


def test_partitions_that_are_added_are_given_out() -> None:
    world = World({"orders": 1})
    world.join("a")
    world.set_topics({"orders": 3, "other": 1})
    assert world.names(world.beat("a", 2).assignment) == {"orders": {0, 1, 2}}
    world.set_topics({"orders": 3, "other": 2})
    assert world.beat("a", 4).member_epoch == 4


def test_topics_that_appear_vanish_or_come_back_as_others() -> None:
    world = World({})
    assert world.names(world.join("a").assignment) == {}
    world.set_topics({"orders": 1})
    old = world.beat("a", 2).assignment
    assert world.names(old) == {"orders": {0}}
    world.beat("a", 4, {"orders": {0}})
    world.set_topics({})
    assert world.beat("a", 4).assignment == {}
    assert world.beat("a", 5, {}).member_epoch == 6
    world.set_topics({"orders": 1})
    new = world.beat("a", 6).assignment
    assert world.names(new) == {"orders": {0}}
    assert new != old
    world.set_topics({})
    gone = world.beat("a", 8)
    assert (gone.member_epoch, gone.assignment) == (10, {}), "what was never listed cannot be, any more"


def test_patterns_follow_the_topics() -> None:
    world = World({"orders-eu": 1, "bills": 1, "__orders": 1})
    world.set_topics({"orders-eu": 1, "bills": 1, "__orders": 1}, internal=["__orders"])
    joined = world.join("a", topics=None, regex=".*orders.*")
    assert world.names(joined.assignment) == {"orders-eu": {0}}
    world.set_topics({"orders-eu": 1, "orders-us": 1, "bills": 1})
    assert world.names(world.beat("a", 2).assignment) == {"orders-eu": {0}, "orders-us": {0}}
    told = world.beat("a", 4, {"orders-eu": {0}, "orders-us": {0}}, regex="bills")
    assert world.names(told.assignment) == {}
    told = world.beat("a", 5, {})
    assert world.names(told.assignment) == {"bills": {0}}
    told = world.beat("a", 6, {"bills": {0}}, topics=["orders-us"], regex="")
    assert world.names(world.beat("a", 7, {}).assignment) == {"orders-us": {0}}


def test_a_changed_subscription_changes_the_assignment() -> None:
    world = World({"orders": 1, "bills": 1})
    world.join("a")
    told = world.beat("a", 2, {"orders": {0}}, topics=["bills"])
    assert (told.member_epoch, world.names(told.assignment)) == (3, {})
    told = world.beat("a", 3, {})
    assert (told.member_epoch, world.names(told.assignment)) == (4, {"bills": {0}})


def test_the_assignor_that_most_ask_for_is_used() -> None:
    world = World({"orders": 2, "bills": 2})
    world.join("a", ["orders", "bills"], assignor="range")
    assert world.described().assignor == "range"
    world.join("b", ["orders", "bills"], assignor="range")
    target = {
        row.member_id: {named.topic: named.partitions for named in row.target} for row in world.described().members
    }
    assert target == {"a": {"orders": (0,), "bills": (0,)}, "b": {"orders": (1,), "bills": (1,)}}
    world.join("c", ["orders"], assignor="uniform")
    assert world.described().assignor == "range"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"group_id": ""}, Problem.INVALID_GROUP_ID),
        ({"group_id": "g" * 1025}, Problem.INVALID_GROUP_ID),
        ({"instance_id": ""}, Problem.INVALID_REQUEST),
        ({"rack_id": ""}, Problem.INVALID_REQUEST),
        ({"member_epoch": -3}, Problem.INVALID_REQUEST),
        ({"member_id": ""}, Problem.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Problem.INVALID_REQUEST),
        ({"owned": None}, Problem.INVALID_REQUEST),
        ({"topic_names": None}, Problem.INVALID_REQUEST),
        ({"topic_names": ()}, Problem.INVALID_REQUEST),
        ({"topic_names": None, "topic_regex": ""}, Problem.INVALID_REQUEST),
        ({"member_epoch": -2}, Problem.INVALID_REQUEST),
        ({"server_assignor": "mine"}, Problem.UNSUPPORTED_ASSIGNOR),
        ({"topic_regex": "("}, Problem.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_requests_that_make_no_sense_are_refused_and_change_nothing(
    change: dict[str, object], problem: Problem
) -> None:
    world = World({"orders": 1})
    answer = world.runner.ask(replace(JOIN, **change), ConsumerHeartbeatAnswer)
    assert (answer.problem, bool(answer.text)) == (problem, True)
    assert world.runner.log == []


def test_a_pattern_is_checked_in_later_heartbeats_too() -> None:
    world = World({"orders": 1})
    world.join("a")
    assert world.beat("a", 1, regex="(").problem is Problem.INVALID_REGULAR_EXPRESSION


def test_version_0_members_are_given_an_id() -> None:
    world = World({"orders": 1})
    answer = world.runner.ask(replace(JOIN, member_id="", needs_own_member_id=False), ConsumerHeartbeatAnswer)
    assert (answer.problem, answer.member_id) == (None, "made-by-the-server")
    later = replace(BEAT, member_id="", needs_own_member_id=False)
    assert world.runner.ask(later, ConsumerHeartbeatAnswer).problem is Problem.INVALID_REQUEST


def test_a_full_group_takes_nobody_but_its_members() -> None:
    world = World({"orders": 1}, ConsumerLimits(max_size=2))
    world.join("a")
    world.join("b", instance_id="one")
    assert world.join("c").problem is Problem.GROUP_FULL
    assert world.join("a").problem is None
    world.beat("b", -2, instance_id="one")
    assert world.join("d", instance_id="one").problem is None


def test_what_the_log_could_not_take_is_refused() -> None:
    world = World({"orders": 1}, limits=GroupLimits(max_group_bytes=1000))
    world.join("a")
    answer = world.join("b", [f"topic-{number}" for number in range(200)])
    assert answer.problem is Problem.GROUP_FULL
    assert world.group().members.keys() == {"a"}
    assert world.beat("a", 2).problem is None


def test_who_joins_with_a_long_name_is_refused_before_others_have_to_suffer_for_it() -> None:
    """When the topic grows, everybody gets a new target: all names in one batch."""
    world = World({"orders": 1}, limits=GroupLimits(max_group_bytes=20_000))
    assert world.join("a").problem is None
    problems = [world.join(f"{number}" * 6000).problem for number in range(4)]
    assert problems == [None, *[Problem.GROUP_FULL] * 3]
    assert world.join("b").problem is None
    epoch = world.group().members["a"].epoch
    world.set_topics({"orders": 10})
    assert world.beat("a", epoch, {"orders": {0}}).problem is None


def test_nor_does_a_static_member_come_back_with_one() -> None:
    world = World({"orders": 1}, limits=GroupLimits(max_group_bytes=20_000))
    world.join("a", instance_id="i")
    world.beat("a", -2, instance_id="i")
    assert world.join("x" * 12_000, instance_id="i").problem is Problem.GROUP_FULL
    assert world.join("b", instance_id="i").problem is None


def test_limits_are_the_operators_own() -> None:
    limits = ConsumerLimits(session_timeout_ms=10_000, heartbeat_interval_ms=700, assignors=("range",))
    world = World({"orders": 1}, limits)
    assert world.join("a").heartbeat_interval_ms == 700
    assert world.described().assignor == "range"
    assert world.join("b", assignor="uniform").problem is Problem.UNSUPPORTED_ASSIGNOR
    world.runner.advance(10_000)
    assert world.described().state == "Empty"
