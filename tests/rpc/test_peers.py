"""Other brokers: found, lost, moved, dead."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.rpc.peer import LIMIT_S, Listener, a_call, deaf_address, free_address, listening, on_loop

from penstock.clock import SteppedClock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.core.backoff import FIRST_MS, MAX_MS
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.dial import is_own_end
from penstock.rpc.peers import Peers, Purpose

TIMEOUT_MS = 60_000
PEER = 2


class World:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.lost: list[tuple[int, Purpose, How]] = []
        self.peers = Peers(self.clock, lambda node_id, purpose, why: self.lost.append((node_id, purpose, why.how)))

    def ask(
        self, body: bytes = b"", purpose: Purpose = Purpose.CONTROL, timeout_ms: int = TIMEOUT_MS
    ) -> Later[bytes | Unanswered]:
        return self.peers.call(PEER, purpose, a_call(body), timeout_ms)

    async def refused_dials(self) -> None:
        """Until it takes a second to the next one."""
        for pause_ms in (0, 50, 100, 200, 400, 800):
            answer = self.ask()
            self.clock.advance(pause_ms)
            assert how(await answer.wait()) is How.REFUSED


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.peers.close()


def how(answer: bytes | Unanswered | None) -> How:
    assert isinstance(answer, Unanswered), answer
    return answer.how


async def echo(listener: Listener, count: int = 1) -> None:
    """Answers so many requests of the next connection with what they said."""
    peer = await listener.accept()
    for _ in range(count):
        number, frame = await peer.request()
        peer.answer(number, frame[8:])


@on_loop
async def test_a_peer_is_dialled_when_it_is_first_asked_and_then_used_again() -> None:
    async with world() as here, listening() as listener:
        here.peers.register(PEER, listener.address)
        await asyncio.sleep(0)
        assert listener.accepted.empty()
        echoing = asyncio.ensure_future(echo(listener, 2))
        assert await here.ask(b"one").wait() == b"one"
        assert await here.ask(b"two").wait() == b"two"
        await echoing
        assert listener.accepted.empty(), "one connection is enough"


@on_loop
async def test_a_peer_without_an_address() -> None:
    async with world() as here:
        assert how(await here.ask().wait()) is How.UNKNOWN_PEER
        assert how(await here.peers.probe(PEER).wait()) is How.UNKNOWN_PEER


@on_loop
async def test_each_purpose_has_its_own_connection() -> None:
    """A fetch that waits for records, or takes long to arrive, delays no change of an ISR."""
    async with world() as here, listening() as listener:
        here.peers.register(PEER, listener.address)
        waiting = here.ask(purpose=Purpose.REPLICATION)
        slow = await listener.accept()
        await slow.request()
        echoing = asyncio.ensure_future(echo(listener))
        assert await here.ask(b"isr").wait() == b"isr"
        await echoing
        assert not waiting.done


@on_loop
async def test_a_peer_that_is_away_is_dialled_less_and_less_often_and_found_when_it_is_back() -> None:
    async with world() as here:
        address = free_address()
        here.peers.register(PEER, address)
        await here.refused_dials()
        back = here.ask(b"back")
        here.clock.advance(MAX_MS - 500)
        async with listening(address) as listener:
            await asyncio.sleep(0)
            assert listener.accepted.empty()
            here.clock.advance(500)
            echoing = asyncio.ensure_future(echo(listener))
            assert await back.wait() == b"back"
            await echoing
        assert set(here.lost) == {(PEER, Purpose.CONTROL, How.REFUSED)}


@on_loop
async def test_a_peer_that_accepts_and_hangs_up_is_dialled_less_and_less_often_too() -> None:
    async with world() as here, listening() as listener:
        here.peers.register(PEER, listener.address)
        for attempt in range(4):
            answer = here.ask()
            here.clock.advance(FIRST_MS << attempt >> 1)
            (await listener.accept()).writer.close()
            assert how(await answer.wait()) is How.CLOSED
        waiting = here.ask()
        here.clock.advance(FIRST_MS << 2)
        await asyncio.sleep(0)
        assert listener.accepted.empty() and not waiting.done


@on_loop
async def test_a_peer_that_registers_is_dialled_at_once_with_all_that_waits() -> None:
    async with world() as here:
        here.peers.register(PEER, free_address())
        await here.refused_dials()
        waiting = here.ask(b"patience")
        async with listening() as listener:
            here.peers.register(PEER, listener.address)
            echoing = asyncio.ensure_future(echo(listener))
            assert await waiting.wait() == b"patience"
            await echoing


@on_loop
async def test_a_peer_that_moves_is_asked_at_its_new_address() -> None:
    async with world() as here, listening() as old, listening() as new:
        here.peers.register(PEER, old.address)
        waiting = here.ask()
        peer = await old.accept()
        await peer.request()
        here.peers.register(PEER, old.address)
        assert not waiting.done, "the same address: nothing to do"
        here.peers.register(PEER, new.address)
        assert how(waiting.result()) is How.STOPPED
        await peer.until_gone()
        echoing = asyncio.ensure_future(echo(new))
        assert await here.ask(b"moved").wait() == b"moved"
        await echoing
        assert here.lost == [], "our own doing"


@on_loop
async def test_a_peer_that_is_forgotten_is_not_asked_any_more() -> None:
    async with world() as here, listening() as listener:
        here.peers.register(PEER, listener.address)
        waiting = here.ask()
        peer = await listener.accept()
        here.peers.forget(PEER)
        assert how(waiting.result()) is How.STOPPED
        assert how(here.ask().result()) is How.UNKNOWN_PEER
        await peer.until_gone()


@on_loop
async def test_who_asks_again_from_the_answer_gets_a_new_connection() -> None:
    async with world() as here, listening() as listener:
        here.peers.register(PEER, listener.address)
        again: list[Later[bytes | Unanswered]] = []
        here.ask().when_done(lambda _: again.append(here.ask(b"again")))
        peer = await listener.accept()
        await peer.request()
        peer.reset()
        while not again:
            await asyncio.sleep(0)
        assert here.lost == [(PEER, Purpose.CONTROL, How.RESET)]
        here.clock.advance(MAX_MS)
        echoing = asyncio.ensure_future(echo(listener))
        assert await again[0].wait() == b"again"
        await echoing


@on_loop
async def test_a_probe_says_whether_somebody_listens_whatever_is_connected_already() -> None:
    async with world() as here:
        async with listening() as listener:
            here.peers.register(PEER, listener.address)
            assert await here.peers.probe(PEER).wait() is None
            await (await listener.accept()).until_gone()
        assert how(await here.peers.probe(PEER).wait()) is How.REFUSED
        assert here.lost == []


@on_loop
async def test_a_probe_of_a_silent_address_is_no_evidence() -> None:
    async with world() as here:
        with deaf_address() as address:
            here.peers.register(PEER, address)
            probe = here.peers.probe(PEER)
            here.clock.advance(10_000)
            assert how(await probe.wait()) is How.TIMED_OUT


@on_loop
async def test_stopping_ends_everything_at_once() -> None:
    async with world() as here, listening() as listener:
        here.peers.register(PEER, listener.address)
        here.peers.register(3, free_address())
        control, bulk = here.ask(), here.ask(purpose=Purpose.REPLICATION)
        ends = [await listener.accept() for _ in range(2)]
        with deaf_address() as address:
            here.peers.register(4, address)
            probe, dialling = here.peers.probe(4), here.peers.call(4, Purpose.CONTROL, a_call(), TIMEOUT_MS)
            here.peers.close()
        assert [how(answer.result()) for answer in (control, bulk, dialling)] == [How.STOPPED] * 3
        assert how(probe.result()) is How.STOPPED
        assert how(here.ask().result()) is How.STOPPED
        for end in ends:
            await end.until_gone()
        assert here.lost == []


@contextmanager
def process_that(does: str) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """A process that listens, accepts one connection and then `does` something, until it is killed."""
    program = f"""
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
{does}
print("ready", flush=True)
listener.accept()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, Address("127.0.0.1", int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        # A process that dies with bytes unread resets its connections, one that has read all closes them.
        ("connection.recv(100, socket.MSG_PEEK)", How.RESET),
        ("connection.recv(100)", How.CLOSED),
    ],
)
def test_a_process_that_is_killed_leaves_evidence(does: str, expected: How) -> None:
    with process_that(does) as (process, address):

        @on_loop
        async def scenario() -> None:
            async with world() as here:
                here.peers.register(PEER, address)
                waiting = here.ask(b"last words")
                assert process.stdout is not None
                await asyncio.get_running_loop().run_in_executor(None, process.stdout.readline)
                process.kill()
                assert how(await waiting.wait()) is expected
                assert here.lost == [(PEER, Purpose.CONTROL, expected)]
                process.wait(LIMIT_S)
                assert how(await here.peers.probe(PEER).wait()) is How.REFUSED

        scenario()


@on_loop
async def test_a_port_that_leads_back_to_itself_is_nobodys() -> None:
    """A dial from a port to that same port connects to itself: the kernel's rule for two that dial each other."""
    loop = asyncio.get_running_loop()
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.connect(own.getsockname())
        own.setblocking(False)
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=own)
        assert is_own_end(transport)
        transport.abort()
    async with listening() as listener:
        other, _ = await loop.create_connection(asyncio.Protocol, listener.address.host, listener.address.port)
        assert not is_own_end(other)
        other.abort()
