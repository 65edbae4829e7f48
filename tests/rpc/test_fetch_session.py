"""The follower's half of a fetch session, against the leader's half."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from kio.schema.errors import ErrorCode

from penstock.broker.error_codes import code_of
from penstock.broker.fetch_sessions import FetchSessions, Plan, Wanted
from penstock.errors import Refused
from penstock.rpc.core.fetch_session import FetchSession, Key, SessionRequest
from penstock.wire.fetch import PartitionFetch
from penstock.wire.fetch_answer import FetchAnswer, PartitionAnswer, TopicAnswer

ORDERS, PAYMENTS = UUID(int=1), UUID(int=2)


def row(partition: int, offset: int = 0) -> PartitionFetch:
    return PartitionFetch(partition, 3, offset, 2, 0, 1000)


def an_answer(
    session_id: int, named: Sequence[Key] = (), code: ErrorCode = ErrorCode.none, throttle_ms: int = 0
) -> FetchAnswer:
    topics = [
        TopicAnswer(
            topic_id, [PartitionAnswer(partition, ErrorCode.none, 0, 0, 0, None, -1, memoryview(b""), None, None)]
        )
        for topic_id, partition in named
    ]
    return FetchAnswer(throttle_ms, code, session_id, topics)


def named(request: SessionRequest) -> list[tuple[UUID | None, int, int]]:
    return [
        (topic.topic_id, each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions
    ]


def opened(session_id: int = 9) -> FetchSession:
    session = FetchSession()
    session.want(ORDERS, row(0))
    session.want(ORDERS, row(1))
    session.want(PAYMENTS, row(0))
    session.ask()
    assert session.answered(an_answer(session_id, [(ORDERS, 0), (ORDERS, 1), (PAYMENTS, 0)])) is None
    return session


def test_the_first_request_names_everything_and_the_next_only_what_changed() -> None:
    session = FetchSession()
    session.want(ORDERS, row(0))
    session.want(ORDERS, row(1))
    first = session.ask()
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [(ORDERS, 0, 0), (ORDERS, 1, 0)])
    assert len(first.topics) == 1, "partitions of one topic share its id"
    session.answered(an_answer(9, [(ORDERS, 0), (ORDERS, 1)]))
    session.want(ORDERS, row(1, offset=5))
    second = session.ask()
    assert (second.session_id, second.session_epoch, named(second)) == (9, 1, [(ORDERS, 1, 5)])
    session.answered(an_answer(9))
    third = session.ask()
    assert (third.session_epoch, third.topics, third.forgotten_topics) == (2, [], [])


def test_what_is_not_wanted_any_more_is_forgotten_once() -> None:
    session = opened()
    session.drop(ORDERS, 0)
    session.drop(PAYMENTS, 0)
    request = session.ask()
    assert [topic[1:] for topic in request.forgotten_topics] == [(ORDERS, (0,)), (PAYMENTS, (0,))]
    session.answered(an_answer(9))
    assert session.ask().forgotten_topics == []
    assert len(session) == 1


def test_dropped_and_wanted_again_is_no_change() -> None:
    session = opened()
    session.drop(ORDERS, 0)
    session.want(ORDERS, row(0))
    request = session.ask()
    assert (request.topics, request.forgotten_topics) == ([], [])


def test_an_answer_may_name_what_was_dropped_while_it_was_on_its_way() -> None:
    session = opened()
    session.ask()
    session.drop(ORDERS, 0)
    assert session.answered(an_answer(9, [(ORDERS, 0)])) is None
    assert session.ask().forgotten_topics[0].partitions == (0,)


def test_what_got_records_comes_last_in_a_full_request() -> None:
    session = opened()
    session.want(ORDERS, row(0, offset=7))
    session.ask()
    session.unanswered()
    assert named(session.ask()) == [(ORDERS, 1, 0), (PAYMENTS, 0, 0), (ORDERS, 0, 7)]


def test_without_an_answer_the_session_is_closed_and_opened_anew() -> None:
    session = opened()
    session.want(ORDERS, row(0, offset=7))
    session.ask()
    session.unanswered()
    request = session.ask()
    assert (request.session_id, request.session_epoch, len(named(request))) == (9, 0, 3)


@pytest.mark.parametrize(
    ("code", "session_id"),
    [(ErrorCode.fetch_session_id_not_found, 0), (ErrorCode.invalid_fetch_session_epoch, 9)],
)
def test_a_leader_that_lost_the_session_gets_everything_again(code: ErrorCode, session_id: int) -> None:
    session = opened()
    session.ask()
    assert session.answered(an_answer(0, code=code)) == f"refused: {code.name}"
    request = session.ask()
    assert (request.session_id, request.session_epoch, len(named(request))) == (session_id, 0, 3)


@pytest.mark.parametrize("wrong", [[(ORDERS, 7)], [(UUID(int=3), 0)], [(ORDERS, 0), (ORDERS, 0)]])
def test_an_answer_about_something_else_is_not_used(wrong: list[Key]) -> None:
    session = opened()
    session.ask()
    assert session.answered(an_answer(9, wrong)) == "partitions that were not asked for, or one twice"
    assert session.ask().session_epoch == 0


def test_a_full_request_needs_a_full_answer() -> None:
    session = FetchSession()
    session.want(ORDERS, row(0))
    session.want(ORDERS, row(1))
    session.ask()
    assert session.answered(an_answer(9, [(ORDERS, 0)])) == "1 partitions of 2 that were asked for"
    session.ask()
    assert session.answered(an_answer(0, throttle_ms=50)) == "throttled"
    assert session.ask().session_epoch == 0


def test_a_leader_that_keeps_no_session_is_asked_for_everything_each_time() -> None:
    session = opened(session_id=0)
    request = session.ask()
    assert (request.session_id, request.session_epoch, len(named(request))) == (0, 0, 3)


def test_a_leader_that_closes_the_session_is_believed_this_time() -> None:
    session = opened()
    session.ask()
    assert session.answered(an_answer(0, [(ORDERS, 0)])) is None
    request = session.ask()
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_one_request_at_a_time() -> None:
    session = opened()
    session.ask()
    with pytest.raises(RuntimeError, match="not been answered"):
        session.ask()


keys = st.tuples(st.sampled_from((ORDERS, PAYMENTS)), st.integers(0, 3))


class TwoHalves(RuleBasedStateMachine):
    """Whatever gets lost, the leader reads what the follower wants, as soon as a request is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.session = FetchSession()
        self.wanted: dict[Key, int] = {}
        self.leader = FetchSessions()
        self.request: SessionRequest | None = None
        self.asked: dict[Key, int] = {}
        self.reply: Plan | Refused | None = None

    @rule(key=keys, offset=st.integers(0, 3))
    def want(self, key: Key, offset: int) -> None:
        self.session.want(key[0], row(key[1], offset))
        self.wanted[key] = offset

    @rule(key=keys)
    def drop(self, key: Key) -> None:
        self.session.drop(*key)
        self.wanted.pop(key, None)

    @precondition(lambda self: self.request is None)
    @rule()
    def ask(self) -> None:
        self.request = self.session.ask()
        self.asked = dict(self.wanted)
        self.reply = None

    @precondition(lambda self: self.request is not None and self.reply is None)
    @rule()
    def leader_reads(self) -> None:
        assert self.request is not None
        rows = [
            Wanted("", topic.topic_id, each.partition, each.fetch_offset, each.partition_max_bytes, 3)
            for topic in self.request.topics
            for each in topic.partitions
        ]
        forgotten: list[tuple[str | UUID, int]] = [
            (topic.topic_id or "", partition)
            for topic in self.request.forgotten_topics
            for partition in topic.partitions
        ]
        self.reply = self.leader.plan(self.request, rows, forgotten, now_ms=0)
        if isinstance(self.reply, Plan):
            assert {each.key: each.fetch_offset for each in self.reply.wanted} == self.asked

    @precondition(lambda self: self.reply is not None)
    @rule(data=st.data())
    def answer_arrives(self, data: st.DataObject) -> None:
        if isinstance(self.reply, Refused):
            assert self.session.answered(an_answer(0, code=code_of(self.reply))) is not None
        else:
            assert self.reply is not None
            every = list(self.asked)
            some = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
            session_id = 0 if self.reply.session is None else self.reply.session.id
            assert self.session.answered(an_answer(session_id, some if self.reply.incremental else every)) is None
        self.request = self.reply = None

    @precondition(lambda self: self.request is not None)
    @rule()
    def nothing_arrives(self) -> None:
        self.session.unanswered()
        self.request = self.reply = None

    @rule()
    def leader_restarts(self) -> None:
        self.leader = FetchSessions()


TestTwoHalves = TwoHalves.TestCase
TestTwoHalves.settings = settings(max_examples=60, stateful_step_count=40)
