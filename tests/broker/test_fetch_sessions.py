"""Incremental fetch sessions, as KIP-227 describes them."""

from typing import NamedTuple

import pytest

from penstock.broker.fetch_sessions import (
    EVICT_AFTER_MS,
    MAX_PARTITIONS,
    MAX_SESSION_PARTITIONS,
    MAX_SESSIONS,
    FetchSessions,
    Plan,
    Wanted,
)
from penstock.errors import Problem, Refused


class Asked(NamedTuple):
    session_id: int
    session_epoch: int


def wanted(index: int, offset: int = 0, topic: str = "orders") -> Wanted:
    return Wanted(topic, None, index, offset, max_bytes=1000, current_leader_epoch=-1)


def planned(plan: Plan | Refused) -> Plan:
    assert isinstance(plan, Plan)
    return plan


def opened(sessions: FetchSessions, rows: list[Wanted], now_ms: int = 0) -> Plan:
    return planned(sessions.plan(Asked(0, 0), rows, [], now_ms))


def test_without_a_session_everything_is_asked_and_answered_each_time() -> None:
    plan = planned(FetchSessions().plan(Asked(0, -1), [wanted(0), wanted(1)], [], 0))
    assert plan.session is None
    assert not plan.incremental
    assert [row.index for row in plan.wanted] == [0, 1]


def test_a_session_remembers_what_was_asked_and_takes_changes() -> None:
    sessions = FetchSessions()
    session = opened(sessions, [wanted(0), wanted(1), wanted(2)]).session
    assert session is not None
    plan = planned(sessions.plan(Asked(session.id, 1), [wanted(1, offset=5), wanted(3)], [("orders", 2)], 1))
    assert plan.incremental
    assert {row.index: row.fetch_offset for row in plan.wanted} == {0: 0, 1: 5, 3: 0}


def test_a_changed_partition_keeps_what_it_was_told() -> None:
    sessions = FetchSessions()
    first = opened(sessions, [wanted(0)])
    first.wanted[0].told_high_watermark = 17
    assert first.session is not None
    plan = planned(sessions.plan(Asked(first.session.id, 1), [wanted(0, offset=9)], [], 1))
    assert plan.wanted[0].told_high_watermark == 17


def test_epochs_follow_each_other_and_a_wrong_one_is_refused() -> None:
    sessions = FetchSessions()
    session = opened(sessions, [wanted(0)]).session
    assert session is not None
    for epoch in (1, 2, 3):
        planned(sessions.plan(Asked(session.id, epoch), [], [], epoch))
    refused = sessions.plan(Asked(session.id, 3), [], [], 4)
    assert isinstance(refused, Refused)
    assert refused.problem is Problem.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused() -> None:
    refused = FetchSessions().plan(Asked(12345, 1), [], [], 0)
    assert isinstance(refused, Refused)
    assert refused.problem is Problem.FETCH_SESSION_NOT_FOUND


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_final_or_new_epoch_closes_the_session(epoch: int) -> None:
    sessions = FetchSessions()
    session = opened(sessions, [wanted(0)]).session
    assert session is not None
    planned(sessions.plan(Asked(session.id, epoch), [wanted(0)], [], 1))
    assert isinstance(sessions.plan(Asked(session.id, 1), [], [], 2), Refused)


def test_a_partition_that_was_served_goes_to_the_end() -> None:
    sessions = FetchSessions()
    first = opened(sessions, [wanted(0), wanted(1), wanted(2)])
    assert first.session is not None
    first.session.served(first.wanted[0])
    plan = planned(sessions.plan(Asked(first.session.id, 1), [], [], 1))
    assert [row.index for row in plan.wanted] == [1, 2, 0]


def test_when_all_sessions_are_in_use_the_next_client_fetches_without_one() -> None:
    sessions = FetchSessions()
    plans = [opened(sessions, [wanted(0)], now_ms=0) for _ in range(MAX_SESSIONS)]
    assert all(plan.session for plan in plans)
    assert opened(sessions, [wanted(0)], now_ms=1).session is None
    # The one that was idle longest makes room.
    assert opened(sessions, [wanted(0)], now_ms=EVICT_AFTER_MS).session is not None


def rows(count: int, first: int = 0) -> list[Wanted]:
    return [wanted(index) for index in range(first, first + count)]


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    sessions = FetchSessions()
    full = [opened(sessions, rows(MAX_SESSION_PARTITIONS)) for _ in range(MAX_PARTITIONS // MAX_SESSION_PARTITIONS)]
    assert full[0].session is not None and full[-1].session is not None
    assert opened(sessions, rows(1)).session is None
    planned(sessions.plan(Asked(full[0].session.id, -1), [], [], 1))
    assert opened(sessions, rows(MAX_SESSION_PARTITIONS)).session is not None


def test_a_fetch_of_more_than_a_session_holds_gets_none() -> None:
    plan = opened(FetchSessions(), rows(MAX_SESSION_PARTITIONS + 1))
    assert plan.session is None
    assert len(plan.wanted) == MAX_SESSION_PARTITIONS + 1


def test_a_session_that_grows_too_large_is_closed() -> None:
    sessions = FetchSessions()
    session = opened(sessions, rows(1)).session
    assert session is not None
    planned(sessions.plan(Asked(session.id, 1), rows(MAX_SESSION_PARTITIONS), [], 1))
    # Nothing new, and as many in place of others, is no growth.
    planned(sessions.plan(Asked(session.id, 2), rows(1, first=MAX_SESSION_PARTITIONS), [("orders", 0)], 2))
    refused = sessions.plan(Asked(session.id, 3), rows(1), [], 3)
    assert isinstance(refused, Refused)
    assert refused.problem is Problem.FETCH_SESSION_NOT_FOUND
    assert isinstance(sessions.plan(Asked(session.id, 4), [], [], 4), Refused)


def test_sessions_that_grow_together_stay_within_what_all_may_hold() -> None:
    sessions = FetchSessions()
    small = opened(sessions, rows(1)).session
    assert small is not None
    others = MAX_PARTITIONS // MAX_SESSION_PARTITIONS
    assert [bool(opened(sessions, rows(MAX_SESSION_PARTITIONS - 1)).session) for _ in range(others)] == [True] * others
    refused = sessions.plan(Asked(small.id, 1), rows(others, first=1), [], 1)
    assert isinstance(refused, Refused)
    assert refused.problem is Problem.FETCH_SESSION_NOT_FOUND
    # What it held is free again.
    assert opened(sessions, rows(others)).session is not None
