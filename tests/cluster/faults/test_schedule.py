"""Schedules: the seed decides all, every kind of fault comes, and never two wiped disks at once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.faults.schedule import Kind, Pace, Possible, Role, cases, schedule

PACE = Pace(session_s=6, longest_hold_s=9, gap_s=1.5, heal_between=0.5)
EVERYTHING = Possible(cuts=True, brokers=3, zookeepers=3, spare=True)

possibilities = st.builds(
    Possible,
    cuts=st.booleans(),
    brokers=st.integers(1, 5),
    zookeepers=st.sampled_from([0, 1, 3]),
    spare=st.booleans(),
)


@given(st.integers(0, 2**32), st.integers(0, 400), possibilities)
def test_the_seed_decides_everything(seed: int, count: int, possible: Possible) -> None:
    faults = schedule(seed, count, possible, PACE)
    assert faults == schedule(seed, count, possible, PACE)
    assert [fault.number for fault in faults] == list(range(1, count + 1))


@given(st.integers(0, 2**32), possibilities)
def test_a_disk_is_wiped_only_when_all_others_are_full(seed: int, possible: Possible) -> None:
    for fault in schedule(seed, 100, possible, PACE):
        assert fault.after_healing or fault.kind not in (Kind.WIPE, Kind.JOIN, Kind.DRAIN)


@given(st.integers(0, 2**32), possibilities)
def test_what_cannot_be_done_is_not_planned(seed: int, possible: Possible) -> None:
    network = {Kind.ISOLATE, Kind.SPLIT, Kind.ONE_WAY_IN, Kind.ONE_WAY_OUT, Kind.NO_STORE, Kind.RESET}
    store = {Kind.STORE_KILL, Kind.STORE_PAUSE, Kind.NO_STORE}
    kinds = {fault.kind for fault in schedule(seed, 200, possible, PACE)}
    assert possible.cuts or not kinds & network
    assert possible.zookeepers or not kinds & store
    assert possible.brokers > 1 or not kinds & {Kind.WIPE, Kind.SPLIT}
    assert possible.spare or not kinds & {Kind.JOIN, Kind.DRAIN}


@given(st.integers(0, 2**32))
def test_a_short_run_has_each_kind_at_most_once_and_a_long_one_has_every_case(seed: int) -> None:
    short = Counter(fault.kind for fault in schedule(seed, 8, EVERYTHING, PACE))
    assert set(short.values()) == {1}
    long = Counter((fault.kind, fault.role) for fault in schedule(seed, 300, EVERYTHING, PACE))
    assert set(long) == set(cases(EVERYTHING))
    assert min(long.values()) >= 300 // len(cases(EVERYTHING))


def test_every_role_meets_every_kind_of_fault() -> None:
    found = set(cases(EVERYTHING))
    for role in (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR):
        assert {(Kind.KILL, role), (Kind.PAUSE, role), (Kind.ISOLATE, role), (Kind.RESET, role)} <= found
