"""Replies leave in the order of their requests, together where they can, and wait for a client that does not read."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.api import Buffers, CloseConnection
from penstock.broker.replies import MOST_ROWS_WAITING, MOST_WAITING, WRITE_BUFFER_BYTES, Replies
from penstock.broker.reply_memory import ReplyMemory
from penstock.later import Later
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.metrics import Metrics
from penstock.units import MIB


class Link(asyncio.Transport):
    """What leaves, one entry per write. `on_stalled` is called in each, as for a client that does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.on_stalled: Callable[[], None] = lambda: None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        self.on_stalled()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))


class Owner:
    def __init__(self) -> None:
        self.link = Link()
        self.memory = ReplyMemory(100 * MIB)
        self.metrics = BrokerMetrics(Metrics())
        self.replies = Replies(self, self.memory, self.metrics)
        self.replies.attach(self.link)
        self.ended: list[str] = []

    def go_on(self) -> None: ...

    def hang_up(self, why: str) -> None:
        self.ended.append(why)
        self.replies.end()

    @property
    def sent(self) -> bytes:
        return b"".join(self.link.writes)


async def turn() -> None:
    """One turn of the loop, and what it made ready."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@given(
    ready_at=st.lists(st.none() | st.integers(0, 5), max_size=20),
    seed=st.randoms(use_true_random=False),
)
def test_whatever_comes_first_replies_leave_in_order(ready_at: list[int | None], seed: Any) -> None:
    """`None` is a reply that is there at once; others come in the turn of their number."""

    async def run() -> None:
        owner = Owner()
        later: list[tuple[int, Later[Buffers], bytes]] = []
        for index, when in enumerate(ready_at):
            text = f"<{index}>".encode()
            if when is None:
                owner.replies.add([text], MOST_WAITING)
            else:
                waiting: Later[Buffers] = Later()
                later.append((when, waiting, text))
                owner.replies.add(waiting, MOST_WAITING)
        owner.replies.flush()
        seed.shuffle(later)
        for number in range(6):
            for when, waiting, text in later:
                if when == number:
                    waiting.complete([text])
            await turn()
        assert owner.sent == b"".join(f"<{index}>".encode() for index in range(len(ready_at)))
        assert owner.metrics.bytes_out == len(owner.sent)

    asyncio.run(run())


def test_replies_of_one_turn_leave_in_one_write() -> None:
    async def run() -> None:
        owner = Owner()
        waiting: list[Later[Buffers]] = [Later() for _ in range(5)]
        for each in waiting:
            owner.replies.add(each, MOST_WAITING)
        for index in (3, 1, 0, 2):
            waiting[index].complete([f"{index}".encode()])
        assert owner.link.writes == []
        await turn()
        assert owner.link.writes == [b"0123"]
        waiting[4].complete([b"4"])
        await turn()
        assert owner.link.writes == [b"0123", b"4"]

    asyncio.run(run())


def test_large_replies_do_not_wait_for_the_end_of_the_turn() -> None:
    """The transport must get to know them, or a client with many requests in one packet gets all of them made."""

    async def run() -> None:
        owner = Owner()
        owner.replies.add([bytes(WRITE_BUFFER_BYTES)], MOST_WAITING)
        assert len(owner.sent) == WRITE_BUFFER_BYTES

    asyncio.run(run())


def test_a_reply_that_must_not_be_overtaken_blocks_until_it_is_there() -> None:
    async def run() -> None:
        owner = Owner()
        first: Later[Buffers] = Later()
        serial: Later[Buffers] = Later()
        owner.replies.add(first, MOST_WAITING)
        assert not owner.replies.blocked
        owner.replies.add(serial, 0)
        assert owner.replies.blocked
        first.complete([b"first"])
        assert owner.replies.blocked
        serial.complete([b"second"])
        assert not owner.replies.blocked

    asyncio.run(run())


@pytest.mark.parametrize("most", [MOST_WAITING, MOST_ROWS_WAITING])
def test_only_so_many_replies_wait(most: int) -> None:
    async def run() -> None:
        owner = Owner()
        waiting: list[Later[Buffers]] = [Later() for _ in range(most)]
        for index, each in enumerate(waiting):
            assert not owner.replies.blocked, index
            owner.replies.add(each, most)
        assert owner.replies.blocked
        for each in reversed(waiting[:3]):
            each.complete([b"x"])
        assert not owner.replies.blocked

    asyncio.run(run())


def test_one_that_may_be_large_lets_fewer_wait_until_none_does() -> None:
    async def run() -> None:
        owner = Owner()
        waiting: list[Later[Buffers]] = [Later() for _ in range(MOST_WAITING)]
        owner.replies.add(waiting[0], MOST_WAITING)
        for each in waiting[1:]:
            assert not owner.replies.blocked
            owner.replies.add(each, MOST_ROWS_WAITING)
        assert owner.replies.blocked
        for each in waiting:
            each.complete([b"x"])
        for _ in range(MOST_WAITING):
            owner.replies.add(Later(), MOST_ROWS_WAITING)
        assert not owner.replies.blocked

    asyncio.run(run())


def test_answers_that_stand_behind_one_that_waits_take_little_memory() -> None:
    async def run() -> None:
        owner = Owner()
        for _ in range(2):
            first: Later[Buffers] = Later()
            owner.replies.add(first, MOST_ROWS_WAITING)
            owner.replies.add([bytes(WRITE_BUFFER_BYTES - 1)], MOST_WAITING)
            assert not owner.replies.blocked
            owner.replies.add([b"x"], MOST_WAITING)
            assert owner.replies.blocked
            first.complete([b"first"])
            assert not owner.replies.blocked

    asyncio.run(run())


def test_what_a_client_leaves_unread_counts_until_it_reads() -> None:
    async def run() -> None:
        owner = Owner()
        owner.link.on_stalled = owner.replies.pause
        owner.replies.add([bytes(MIB)], MOST_WAITING)
        assert owner.replies.unread
        assert owner.memory.held_bytes == MIB
        owner.replies.add([bytes(MIB)], MOST_WAITING)
        assert owner.memory.held_bytes == 2 * MIB
        owner.replies.resume()
        assert (owner.replies.unread, owner.memory.held_bytes) == (False, 0)
        owner.replies.add([bytes(MIB)], MOST_WAITING)
        assert owner.memory.held_bytes == MIB
        owner.replies.drop()
        assert owner.memory.held_bytes == 0

    asyncio.run(run())


def test_a_reply_that_can_only_be_to_hang_up_lets_those_before_it_leave() -> None:
    async def run() -> None:
        owner = Owner()
        first: Later[Buffers] = Later()
        bad: Later[Buffers] = Later()
        last: Later[Buffers] = Later()
        for each in (first, bad, last):
            owner.replies.add(each, MOST_WAITING)
        bad.fail(CloseConnection("enough"))
        last.complete([b"last"])
        await turn()
        assert owner.ended == []
        first.complete([b"first"])
        await turn()
        assert (owner.ended, owner.sent) == (["enough"], b"first")

    asyncio.run(run())


def test_a_connection_that_has_gone_is_freed_at_once_whatever_still_waits_for_it() -> None:
    """Not by the collector: it looks so rarely that thousands of them would pile up."""

    async def run() -> None:
        owner = Owner()
        late: Later[Buffers] = Later()
        owner.replies.add([b"ready"], MOST_WAITING)
        owner.replies.add(late, 0)
        gone = weakref.ref(owner)
        owner.replies.drop()
        del owner
        assert gone() is None
        late.complete([b"too late"])
        await turn()

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_what_comes_after_the_end_goes_nowhere() -> None:
    async def run() -> None:
        owner = Owner()
        late: Later[Buffers] = Later()
        owner.replies.add([b"ready"], MOST_WAITING)
        owner.replies.add(late, MOST_WAITING)
        owner.replies.end()
        late.complete([b"late"])
        await turn()
        assert owner.sent == b"ready"

    asyncio.run(run())
