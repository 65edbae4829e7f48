"""The core of a connection: order, deadlines, limits, and answers that are none."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.rpc.core.call import Call
from penstock.rpc.core.connection import MAX_REQUEST_BYTES, MAX_REQUESTS, ConnectionCore
from penstock.units import MIB
from penstock.wire.malformed import Malformed


def a_call(body: bytes = b"", *, tagged_header: bool = False, limit: int = 1000) -> Call[bytes]:
    frame = bytearray(struct.pack(">ihhi", 8 + len(body), 3, 0, 0) + body)
    return Call(frame, tagged_header, lambda answer, start: bytes(answer[start:]), answer_limit_bytes=limit)


def number_of(frame: bytearray) -> int:
    (number,) = struct.unpack_from(">i", frame, 8)
    assert isinstance(number, int)
    return number


def an_answer(number: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), number) + body


def receive(core: ConnectionCore[str], data: bytes, now_ms: int = 0) -> list[tuple[str, Any]]:
    answers = []
    while data:
        space = core.space()
        size = min(len(space), len(data))
        space[:size] = data[:size]
        data = data[size:]
        core.received(size, now_ms)
        while (answer := core.next_answer()) is not None:
            answers.append(answer)
        core.make_room()
    return answers


def core_with(*slots: str, timeout_ms: int = 1000) -> tuple[ConnectionCore[str], list[int]]:
    core: ConnectionCore[str] = ConnectionCore()
    for slot in slots:
        assert core.add(a_call(), slot, timeout_ms, now_ms=0)
    return core, [number_of(frame) for frame in core.take_unsent()]


def test_answers_find_those_who_asked() -> None:
    core, numbers = core_with("a", "b")
    assert len(set(numbers)) == 2
    assert receive(core, an_answer(numbers[0], b"1") + an_answer(numbers[1], b"2")) == [("a", b"1"), ("b", b"2")]
    assert len(core) == 0
    assert core.has_answered


def test_requests_leave_once_and_in_order() -> None:
    core: ConnectionCore[str] = ConnectionCore()
    for body in (b"first", b"second"):
        core.add(a_call(body), "any", 1000, now_ms=0)
    assert [bytes(frame[12:]) for frame in core.take_unsent()] == [b"first", b"second"]
    assert core.take_unsent() == []


def test_tagged_fields_of_the_header_are_skipped() -> None:
    core: ConnectionCore[str] = ConnectionCore()
    core.add(a_call(tagged_header=True), "a", 1000, now_ms=0)
    (frame,) = core.take_unsent()
    assert receive(core, an_answer(number_of(frame), b"\x01\x05\x02xybody")) == [("a", b"body")]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (an_answer(1), "to request 1, 0 is the next"),
        (an_answer(-7), "to request -7, 0 is the next"),
        (struct.pack(">i", 2000), "2000 bytes announced"),
        (b"HTTP/1.1 400", "1213486160 bytes announced"),
        (an_answer(0) + an_answer(0), "nothing was asked"),
        (an_answer(0) + b"x", "nothing was asked"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes, why: str) -> None:
    core, _ = core_with("a")
    with pytest.raises(Malformed, match=why):
        receive(core, data)


def test_who_got_a_malformed_answer_is_among_those_who_get_none() -> None:
    def read(frame: memoryview, start: int) -> bytes:
        raise Malformed("body", "nonsense")

    core: ConnectionCore[str] = ConnectionCore()
    core.add(Call(a_call().frame, False, read), "a", 1000, now_ms=0)
    core.take_unsent()
    with pytest.raises(Malformed, match="nonsense"):
        receive(core, an_answer(0))
    assert not core.has_answered
    assert core.close() == ([], ["a"])


def test_the_bytes_of_an_answer_are_released_before_they_change() -> None:
    released: list[memoryview] = []
    core: ConnectionCore[str] = ConnectionCore()
    call: Call[memoryview] = Call(a_call().frame, False, lambda frame, start: frame[start:], released.append)
    core.add(call, "a", 1000, now_ms=0)
    core.take_unsent()
    space = core.space()
    space[:11] = an_answer(0, b"abc")
    core.received(11, 0)
    answer = core.next_answer()
    assert answer is not None
    view = answer[1]
    assert (bytes(view), released) == (b"abc", [])
    core.make_room()
    assert released == [view]


def test_deadlines_pass_one_by_one_while_the_peer_works() -> None:
    """`b` waits behind `a`: its time runs out, and the connection stays for those who still have time."""
    core: ConnectionCore[str] = ConnectionCore()
    core.add(a_call(), "a", 5000, now_ms=0)
    core.add(a_call(), "b", 100, now_ms=0)
    core.take_unsent()
    assert core.next_deadline_ms() == 100
    assert core.take_expired(99) == ([], [])
    assert core.take_expired(100) == ([], ["b"])
    assert not core.is_stalled(100)
    assert core.next_deadline_ms() == 5000
    assert receive(core, an_answer(0) + an_answer(1), now_ms=4000) == [("a", b"")], "nobody waits for the other"
    assert core.next_deadline_ms() is None


def test_a_connection_is_stalled_when_the_next_answer_has_had_all_of_its_time() -> None:
    core: ConnectionCore[str] = ConnectionCore()
    core.add(a_call(), "a", 1000, now_ms=0)
    core.add(a_call(), "b", 1000, now_ms=0)
    core.take_unsent()
    receive(core, an_answer(0), now_ms=900)
    assert core.take_expired(1000) == ([], ["b"])
    assert not core.is_stalled(1899), "the peer came to it at 900 only"
    assert core.next_deadline_ms() == 1900
    assert core.is_stalled(1900)


def test_what_was_not_sent_in_time_is_never_sent() -> None:
    core: ConnectionCore[str] = ConnectionCore()
    core.add(a_call(b"late"), "late", 100, now_ms=0)
    core.add(a_call(b"good"), "good", 1000, now_ms=0)
    assert core.take_expired(500) == (["late"], [])
    frames = core.take_unsent()
    assert [bytes(frame[12:]) for frame in frames] == [b"good"]
    assert receive(core, an_answer(number_of(frames[0]), b"!")) == [("good", b"!")]


def test_the_queue_is_bounded_by_number_and_by_bytes() -> None:
    core: ConnectionCore[str] = ConnectionCore()
    assert all(core.add(a_call(), "any", 1000, now_ms=0) for _ in range(MAX_REQUESTS))
    assert not core.add(a_call(), "too many", 1000, now_ms=0)
    core.take_unsent()
    assert not core.add(a_call(), "still too many", 1000, now_ms=0)
    receive(core, an_answer(0))
    assert core.add(a_call(), "one has been answered", 1000, now_ms=0)
    large: ConnectionCore[str] = ConnectionCore()
    assert large.add(a_call(bytes(MAX_REQUEST_BYTES)), "alone it may be of any size", 1000, now_ms=0)
    assert not large.add(a_call(), "no more bytes", 1000, now_ms=0)
    large.take_expired(1000)
    assert large.add(a_call(bytes(MIB)), "room again", 1000, now_ms=0)


def test_after_its_end_nothing_is_answered() -> None:
    core, _ = core_with("a", "b")
    core.add(a_call(), "c", 1000, now_ms=0)
    space = core.space()
    space[:16] = an_answer(0) + an_answer(1)
    core.received(16, 0)
    assert core.next_answer() == ("a", b"")
    assert core.close() == (["c"], ["b"])
    assert core.next_answer() is None


class Conversation(RuleBasedStateMachine):
    """Against a server that answers in order: each request ends once, as answered, expired or left over."""

    def __init__(self) -> None:
        super().__init__()
        self.core: ConnectionCore[int] = ConnectionCore()
        self.now_ms = 0
        self.asked = 0
        self.deadlines: dict[int, int] = {}
        self.ended: dict[int, str] = {}
        self.at_server: list[tuple[int, bytes]] = []
        self.on_the_way = b""

    def end(self, request: int, how: str) -> None:
        assert request not in self.ended, "it ended twice"
        self.ended[request] = how

    @rule(timeout_ms=st.integers(1, 100))
    def ask(self, timeout_ms: int) -> None:
        request = self.asked
        self.asked += 1
        assert self.core.add(a_call(struct.pack(">i", request)), request, timeout_ms, self.now_ms)
        self.deadlines[request] = self.now_ms + timeout_ms

    @rule()
    def send(self) -> None:
        for frame in self.core.take_unsent():
            (request,) = struct.unpack_from(">i", frame, 12)
            assert self.ended.get(request) != "unsent", "it was said never to be sent"
            self.at_server.append((number_of(frame), bytes(frame[12:])))

    @rule(count=st.integers(1, 5), cut=st.integers(0, 20))
    def answer(self, count: int, cut: int) -> None:
        for number, body in self.at_server[:count]:
            self.on_the_way += an_answer(number, body)
        del self.at_server[:count]
        arriving = len(self.on_the_way) - cut
        if arriving <= 0:
            return
        space = self.core.space()
        space[:arriving] = self.on_the_way[:arriving]
        self.on_the_way = self.on_the_way[arriving:]
        self.core.received(arriving, self.now_ms)
        while (answered := self.core.next_answer()) is not None:
            request, body = answered
            assert struct.unpack(">i", body) == (request,)
            self.end(request, "answered")
        self.core.make_room()

    @rule(by_ms=st.integers(1, 80))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms
        unsent, sent = self.core.take_expired(self.now_ms)
        for request in unsent:
            self.end(request, "unsent")
        for request in sent:
            self.end(request, "expired")
        overdue = {request for request, deadline in self.deadlines.items() if deadline <= self.now_ms}
        assert overdue <= self.ended.keys()

    @invariant()
    def deadlines_are_known(self) -> None:
        waiting = [deadline for request, deadline in self.deadlines.items() if request not in self.ended]
        next_ms = self.core.next_deadline_ms()
        assert not waiting or (next_ms is not None and next_ms <= min(waiting))

    def teardown(self) -> None:
        unsent, sent = self.core.close()
        for request in (*unsent, *sent):
            self.end(request, "left")
        assert sorted(self.ended) == list(range(self.asked))


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=40, stateful_step_count=30)
