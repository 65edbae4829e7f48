"""A connection over real sockets: to a peer that answers, that dies, that is silent, that lies."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.rpc.peer import Listener, Served, a_call, deaf_address, framed, free_address, listening, on_loop

from penstock.clock import SteppedClock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.connection import Connection
from penstock.rpc.core.call import Call, fetch_call
from penstock.rpc.core.connection import MAX_REQUESTS
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.dial import DIAL_TIMEOUT_MS
from penstock.units import MIB
from penstock.wire.fetch import FetchRequest

TIMEOUT_MS = 60_000


class Dialled:
    """A connection, its clock, and how it ended."""

    def __init__(self, address: Address, in_ms: int = 0) -> None:
        self.clock = SteppedClock()
        self.ends: list[How] = []
        self.connection = Connection(self.clock, lambda _, why: self.ends.append(why.how))
        self.connection.dial(address, self.clock.now_ms() + in_ms)

    def ask(self, body: bytes = b"", timeout_ms: int = TIMEOUT_MS) -> Later[bytes | Unanswered]:
        return self.connection.ask(a_call(body), timeout_ms)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Dialled, Served, Listener]]:
    async with listening() as listener:
        dialled = Dialled(listener.address)
        yield dialled, await listener.accept(), listener
        dialled.connection.close("the test is over")


def how(answer: bytes | Unanswered) -> tuple[How, bool]:
    assert isinstance(answer, Unanswered), answer
    return answer.how, answer.sent


@on_loop
async def test_requests_wait_for_the_connection_and_are_answered_in_order() -> None:
    async with listening() as listener:
        dialled = Dialled(listener.address)
        first, second = dialled.ask(b"first"), dialled.ask(b"second")
        peer = await listener.accept()
        for expected in (b"first", b"second"):
            number, frame = await peer.request()
            assert frame[8:] == expected
            peer.answer(number, expected.upper())
        assert (await first.wait(), await second.wait()) == (b"FIRST", b"SECOND")
        dialled.connection.close("the test is over")


@on_loop
async def test_nobody_listens() -> None:
    dialled = Dialled(free_address())
    answers = [dialled.ask(), dialled.ask()]
    assert [how(await answer.wait()) for answer in answers] == [(How.REFUSED, False)] * 2
    assert dialled.ends == [How.REFUSED]
    assert not dialled.connection.was_up


@pytest.mark.parametrize("host", ["", "a..b"])
@on_loop
async def test_an_address_that_is_none(host: str) -> None:
    assert how(await Dialled(Address(host, 9092)).ask().wait()) == (How.UNREACHABLE, False)


@pytest.mark.parametrize("port", [0, 2**16, 99_999, -1])
@on_loop
async def test_a_port_that_is_none(port: int) -> None:
    """It may stand in the cluster's store, whoever wrote it; refused would be taken for evidence."""
    assert how(await Dialled(Address("127.0.0.1", port)).ask().wait()) == (How.UNREACHABLE, False)


@on_loop
async def test_a_peer_that_dies_breaks_off() -> None:
    async with connected() as (dialled, peer, _):
        answer = dialled.ask()
        await peer.request()
        peer.reset()
        assert how(await answer.wait()) == (How.RESET, True)
        assert dialled.ends == [How.RESET]


@on_loop
async def test_a_peer_that_hangs_up_in_the_middle_of_an_answer() -> None:
    async with connected() as (dialled, peer, _):
        answer = dialled.ask()
        number, _ = await peer.request()
        peer.writer.write(framed(struct.pack(">i", number) + bytes(100))[:50])
        peer.writer.close()
        assert how(await answer.wait()) == (How.CLOSED, True)
        assert dialled.ends == [How.CLOSED]


@on_loop
async def test_the_end_of_an_idle_connection_is_noticed() -> None:
    async with connected() as (dialled, peer, _):
        answer = dialled.ask()
        peer.answer((await peer.request())[0])
        await answer.wait()
        peer.reset()
        while not dialled.ends:
            await asyncio.sleep(0)
        assert dialled.ends == [How.RESET]


@on_loop
async def test_a_silent_peer_is_given_up_at_the_deadline() -> None:
    async with connected() as (dialled, peer, _):
        answers = [dialled.ask(timeout_ms=1000), dialled.ask(timeout_ms=50_000)]
        await peer.request()
        dialled.clock.advance(999 - 500)
        assert not answers[0].done
        dialled.clock.advance(501)
        assert [how(answer.result()) for answer in answers] == [(How.TIMED_OUT, True)] * 2
        assert dialled.ends == [How.TIMED_OUT]
        await peer.until_gone()


@on_loop
async def test_one_deadline_passes_while_the_peer_works_on_what_came_before() -> None:
    async with connected() as (dialled, peer, _):
        slow, hasty, third = dialled.ask(), dialled.ask(timeout_ms=1000), dialled.ask()
        numbers = [(await peer.request())[0] for _ in range(3)]
        dialled.clock.advance(1000)
        assert how(hasty.result()) == (How.TIMED_OUT, True)
        for number in numbers:
            peer.answer(number, b"at last")
        assert (await slow.wait(), await third.wait()) == (b"at last", b"at last")
        assert dialled.ends == []


@on_loop
async def test_what_is_still_not_sent_at_its_deadline_is_never_sent() -> None:
    async with listening() as listener:
        dialled = Dialled(listener.address, in_ms=10_000)
        late, good = dialled.ask(b"late", timeout_ms=5_000), dialled.ask(b"good")
        dialled.clock.advance(5_000)
        assert how(late.result()) == (How.TIMED_OUT, False)
        dialled.clock.advance(5_000)
        peer = await listener.accept()
        number, frame = await peer.request()
        assert frame[8:] == b"good"
        peer.answer(number)
        assert await good.wait() == b""
        dialled.connection.close("the test is over")


@on_loop
async def test_a_dial_that_nobody_answers_ends() -> None:
    with deaf_address() as address:
        dialled = Dialled(address)
        answer, hasty = dialled.ask(), dialled.ask(timeout_ms=100)
        dialled.clock.advance(100)
        assert how(hasty.result()) == (How.TIMED_OUT, False)
        assert dialled.ends == []
        dialled.clock.advance(DIAL_TIMEOUT_MS - 100)
        assert how(answer.result()) == (How.TIMED_OUT, False)
        assert dialled.ends == [How.TIMED_OUT]


@on_loop
async def test_a_slow_peer_is_waited_for_until_the_deadline() -> None:
    async with connected() as (dialled, peer, _):
        answer, next_answer = dialled.ask(timeout_ms=10_000), dialled.ask(timeout_ms=20_000)
        number, _ = await peer.request()
        for byte in framed(struct.pack(">i", number) + b"slowly"):
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
            dialled.clock.advance(500)
        assert await answer.wait() == b"slowly"
        dialled.clock.advance(30_000)
        assert how(next_answer.result()) == (How.TIMED_OUT, True)


@pytest.mark.parametrize(
    "lie",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 2**31 - 1),
        framed(struct.pack(">i", 12345)),
        framed(bytes(4) + bytes(2000)),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        bytes(1000),
    ],
)
@on_loop
async def test_bytes_that_are_no_answer_end_the_connection(lie: bytes) -> None:
    async with connected() as (dialled, peer, _):
        answers = [dialled.ask(), dialled.ask()]
        await peer.request()
        peer.writer.write(lie)
        assert [how(await answer.wait()) for answer in answers] == [(How.MALFORMED, True)] * 2
        assert dialled.ends == [How.MALFORMED]
        await peer.until_gone()


FETCHED = b"\x00" + struct.pack(">ihi", 0, 0, 7)


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        b"\xff\xff\xff\xff\x0f",
        FETCHED + b"\xff\xff\xff\xff\x0f",
        FETCHED + b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x0f",
        FETCHED + b"\x02" + bytes(16) + b"\x02" + bytes(35) + b"\xff\xff\xff\x7f\x00\x00",
        b"\x00" + struct.pack(">ihi", 0, 31_000, 7) + b"\x01\x00",
    ],
)
@on_loop
async def test_a_fetch_answer_that_lies_ends_the_connection(lie: bytes) -> None:
    async with connected() as (dialled, peer, _):
        request = FetchRequest(1, 7, 500, 1, 10 * MIB, 0, 0, 0, [], [], "", None)
        answer = dialled.connection.ask(fetch_call(request), TIMEOUT_MS)
        number, _ = await peer.request()
        peer.answer(number, lie)
        failed = await answer.wait()
        assert isinstance(failed, Unanswered)
        assert failed.how is How.MALFORMED
        await peer.until_gone()


@on_loop
async def test_a_peer_that_speaks_unasked_is_hung_up_on() -> None:
    async with connected() as (dialled, peer, _):
        peer.writer.write(framed(bytes(4)))
        await peer.until_gone()
        assert dialled.ends == [How.MALFORMED]


@on_loop
async def test_a_peer_that_does_not_read_holds_a_bounded_number_of_requests() -> None:
    async with connected() as (dialled, _, _):
        answers = [dialled.ask(bytes(MIB), timeout_ms=1000) for _ in range(40)]
        await asyncio.sleep(0)
        refused = [how(answer.result()) for answer in answers if answer.done]
        assert refused == [(How.BUSY, False)] * 9, "32 MiB are kept for it, with headers"
        later = dialled.ask(timeout_ms=1000)
        dialled.clock.advance(1000)
        assert how(later.result()) == (How.TIMED_OUT, False), "the transport had enough already"
        assert {how(answer.result())[0] for answer in answers} == {How.BUSY, How.TIMED_OUT}


@on_loop
async def test_a_thousand_requests_are_on_their_way_at_once() -> None:
    async with connected() as (dialled, peer, _):
        answers = [dialled.ask(struct.pack(">i", number)) for number in range(MAX_REQUESTS)]
        assert how(dialled.ask().result()) == (How.BUSY, False)
        for _ in answers:
            number, frame = await peer.request()
            peer.answer(number, frame[8:])
        for number, answer in enumerate(answers):
            assert await answer.wait() == struct.pack(">i", number)


@on_loop
async def test_an_answer_leads_to_the_next_request_at_once() -> None:
    async with connected() as (dialled, peer, _):
        followed: list[Later[bytes | Unanswered]] = []
        dialled.ask(b"first").when_done(lambda _: followed.append(dialled.ask(b"second")))
        peer.answer((await peer.request())[0])
        number, frame = await peer.request()
        assert frame[8:] == b"second"
        peer.answer(number, b"done")
        assert await followed[0].wait() == b"done"


@on_loop
async def test_a_large_answer_is_seen_where_it_arrived_and_only_in_the_callback() -> None:
    async with connected() as (dialled, peer, _):
        view_call: Call[memoryview] = Call(
            a_call().frame, False, lambda frame, start: frame[start:], memoryview.release, 20 * MIB
        )
        seen: list[bytes] = []
        answer = dialled.connection.ask(view_call, TIMEOUT_MS)
        answer.when_done(lambda done: seen.append(bytes(memoryview_of(done.result())[-4:])))
        number, _ = await peer.request()
        peer.answer(number, bytes(10 * MIB) + b"last")
        late = memoryview_of(await answer.wait())
        assert seen == [b"last"]
        with pytest.raises(ValueError, match="released"):
            bytes(late)


def memoryview_of(answer: memoryview | Unanswered) -> memoryview:
    assert isinstance(answer, memoryview), answer
    return answer


@on_loop
async def test_closing_it_tells_all_who_wait() -> None:
    async with connected() as (dialled, peer, _):
        sent = dialled.ask()
        await peer.request()
        unsent = dialled.ask()
        dialled.connection.close("enough")
        assert (how(sent.result()), how(unsent.result())) == ((How.STOPPED, True), (How.STOPPED, False))
        assert how(dialled.ask().result()) == (How.STOPPED, False)
        await peer.until_gone()
        assert dialled.ends == [How.STOPPED]


def test_a_callback_that_raises_is_told_to_the_loop_and_keeps_nobody_waiting() -> None:
    told: list[str] = []

    @on_loop
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(str(context["exception"])))

        def fail(_: object) -> None:
            raise RuntimeError("a bug")

        async with connected() as (dialled, peer, _):
            answers = [dialled.ask() for _ in range(3)]
            answers[0].when_done(fail)
            answers[1].when_done(fail)
            peer.answer((await peer.request())[0])
            assert how(await answers[2].wait()) == (How.STOPPED, True), "no evidence against the peer"

    scenario()
    assert "a bug" in told
