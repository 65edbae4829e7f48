"""ZooKeeper behind a line that fails: sessions, watches, and what is known of a commit."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
import uvloop
from tests.coordination.link import Link, linked
from tests.coordination.stores import plain, refused_start, until, with_zookeeper

from penstock.config.address import Address
from penstock.config.coordination import CoordinationSettings, CoordinationTarget
from penstock.coordination.interface import Create, Node, Replace, SessionState
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.errors import PenstockError, Problem
from penstock.testing.zookeeper import zookeeper

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST
SHORT_SESSION_MS = 2_000


class Pair(NamedTuple):
    """`store` reaches ZooKeeper through `link`, `other` directly."""

    store: ZooKeeperStore
    other: ZooKeeperStore
    link: Link
    states: list[SessionState]


@asynccontextmanager
async def paired(settings: CoordinationSettings, session_timeout_ms: int) -> AsyncIterator[Pair]:
    async with linked(replace(settings, session_timeout_ms=session_timeout_ms)) as (link, through):
        store = await ZooKeeperStore.open(through)
        other = await ZooKeeperStore.open(settings)
        try:
            states: list[SessionState] = []
            store.watch_session(states.append)
            yield Pair(store, other, link, states)
        finally:
            await other.close()
            await store.close()


def run(
    settings: CoordinationSettings, use: Callable[[Pair], Awaitable[None]], session_timeout_ms: int = 6_000
) -> None:
    async def main() -> None:
        unexpected: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
        async with paired(settings, session_timeout_ms) as pair, asyncio.timeout(60):
            await use(pair)
        # Errors that nobody was told.
        gc.collect()
        assert unexpected == []

    uvloop.run(main())


async def is_unavailable(call: Awaitable[object]) -> bool:
    with pytest.raises(PenstockError) as caught:
        await call
    return caught.value.problem is Problem.STORE_UNAVAILABLE


def test_the_session_survives_a_lost_connection(chroot_settings: CoordinationSettings) -> None:
    async def use(pair: Pair) -> None:
        store, session_id = pair.store, pair.store.session_id
        await store.commit([Create("/here", b"", ephemeral=True), Create("/a", b"")])
        pair.link.cut()
        await until(lambda: store.session_state is SUSPENDED)
        assert store.session_id == session_id
        assert await is_unavailable(store.commit([Replace("/a", b"never", 0)]))
        assert await is_unavailable(store.read("/a"))
        assert await is_unavailable(store.read_many(["/a"] * 10))
        pair.link.heal()
        await until(lambda: CONNECTED in pair.states)
        assert pair.states == [SUSPENDED, CONNECTED]
        assert store.session_id == session_id
        assert (await store.read("/here") or Node(b"", 0)).owner == session_id
        assert plain(await store.read("/a")) == Node(b"", 0)
        assert await store.commit([Replace("/a", b"now", 0)]) == [1]

    run(chroot_settings, use)


def test_a_lost_session_takes_its_nodes_along_and_a_new_one_follows(chroot_settings: CoordinationSettings) -> None:
    async def use(pair: Pair) -> None:
        store, session_id = pair.store, pair.store.session_id
        await store.commit([Create("/here", b"", ephemeral=True)])
        gone = asyncio.Event()
        pair.other.watch("/here", lambda _: gone.set())
        seen: list[str] = []
        store.watch("/", seen.append)
        pair.link.cut()
        async with asyncio.timeout(10):
            await gone.wait()
        assert store.session_state is SUSPENDED
        ids: list[tuple[SessionState, int | None]] = []
        store.watch_session(lambda state: ids.append((store.session_state, store.session_id)))
        pair.link.heal()
        await until(lambda: store.session_id not in (None, session_id) and pair.states[-1] is CONNECTED)
        assert pair.states[-3:] == [SUSPENDED, LOST, CONNECTED]
        assert ids == [(LOST, None), (CONNECTED, store.session_id)]
        assert store.session_id != session_id
        assert await store.read("/here") is None
        await until(lambda: seen == ["/"])
        await store.read("/")
        await pair.other.commit([Create("/b", b"")])
        await until(lambda: seen == ["/", "/b"])

    run(chroot_settings, use, SHORT_SESSION_MS)


def test_a_watch_says_look_again_after_each_reconnect(chroot_settings: CoordinationSettings) -> None:
    async def use(pair: Pair) -> None:
        await pair.store.commit([Create("/a", b""), Create("/b", b"")])
        seen: list[str] = []
        pair.store.watch("/a", seen.append)
        # One that is made while there is no connection counts too.
        pair.link.cut()
        await until(lambda: pair.store.session_state is SUSPENDED)
        pair.store.watch("/b", seen.append)
        await pair.other.commit([Replace("/a", b"unseen", 0)])
        assert seen == []
        for round_number in range(2):
            pair.link.heal()
            await until(lambda: set(seen) == {"/a", "/b"} and pair.store.session_state is CONNECTED)
            seen.clear()
            # What is changed after this read is told; what was changed before, it has seen.
            await pair.store.read("/a")
            await pair.other.commit([Create(f"/a/{round_number}", b""), Replace("/b", b"", round_number)])
            await until(lambda number=round_number: seen == [f"/a/{number}", "/b"])  # type: ignore[misc]
            seen.clear()

    run(chroot_settings, use)


def test_what_became_of_an_unanswered_commit_is_not_claimed(chroot_settings: CoordinationSettings) -> None:
    async def use(pair: Pair) -> None:
        store = pair.store
        await store.commit([Create("/a", b"")])
        seen = asyncio.Event()
        pair.other.watch("/a", lambda _: seen.set())
        await pair.other.sync()
        pair.link.deaf = True
        commit = asyncio.ensure_future(store.commit([Replace("/a", b"done", 0)]))
        async with asyncio.timeout(10):
            await seen.wait()
        assert not commit.done()
        pair.link.cut()
        assert await is_unavailable(commit)
        pair.link.heal()
        await until(lambda: store.session_state is CONNECTED)
        await store.sync()
        assert plain(await store.read("/a")) == Node(b"done", 1)

    run(chroot_settings, use)


def test_a_server_that_stands_still_is_given_up_before_the_session_ends(chroot_settings: CoordinationSettings) -> None:
    async def use(pair: Pair) -> None:
        session_id = pair.store.session_id
        pair.link.silent = True
        read = asyncio.ensure_future(pair.store.read("/a"))
        assert await is_unavailable(read)
        pair.link.heal()
        await until(lambda: pair.store.session_state is CONNECTED)
        assert pair.store.session_id == session_id

    run(chroot_settings, use, 5_000)


def test_a_thousand_reads_are_answered_together(chroot_settings: CoordinationSettings) -> None:
    async def use(store: ZooKeeperStore) -> None:
        paths = [f"/{number}" for number in range(1_500)]
        await store.commit([Create(path, path.encode()) for path in paths[:1_000]])
        nodes = await store.read_many(paths)
        assert [node and node.data for node in nodes] == [path.encode() for path in paths[:1_000]] + [None] * 500

    with_zookeeper(chroot_settings, use)


def test_without_a_chroot_the_root_is_used(chroot_settings: CoordinationSettings) -> None:
    async def use(store: ZooKeeperStore) -> list[str]:
        assert await store.read("/tests") is not None
        return await store.children("/")

    with_zookeeper(chroot_settings, lambda store: store.commit([Create("/a", b"")]))
    root = replace(chroot_settings, coordination=replace(chroot_settings.coordination, chroot=""))
    # ZooKeeper's own node is not ours to see.
    assert "zookeeper" not in with_zookeeper(root, use)


def test_those_who_start_at_the_same_time_make_one_chroot(chroot_settings: CoordinationSettings) -> None:
    async def main() -> None:
        stores = [await ZooKeeperStore.open(chroot_settings) for _ in range(3)]
        commits = [store.commit([Create(f"/{number}", b"")]) for number, store in enumerate(stores)]
        assert await asyncio.gather(*commits) == [[0]] * 3
        await stores[0].sync()
        assert await stores[0].children("/") == ["0", "1", "2"]
        for store in stores:
            await store.close()

    asyncio.run(main())


def test_opening_and_reading_writes_nothing(chroot_settings: CoordinationSettings) -> None:
    async def look(store: ZooKeeperStore) -> None:
        await store.sync()
        assert await store.read("/") is None
        assert await store.children("/") == []

    with_zookeeper(chroot_settings, look)
    with_zookeeper(chroot_settings, look)


def test_a_closed_store_answers_that_it_cannot(chroot_settings: CoordinationSettings) -> None:
    async def main() -> None:
        store = await ZooKeeperStore.open(chroot_settings)
        last = asyncio.ensure_future(store.commit([Create("/a", b"")]))
        await asyncio.sleep(0)
        await store.close()
        assert await last == [0]
        assert await is_unavailable(store.commit([Create("/b", b"")]))
        assert await is_unavailable(store.read("/a"))

    uvloop.run(main())


def test_absent_servers_are_named(chroot_settings: CoordinationSettings) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = Address(*closed.getsockname())
        target = CoordinationTarget((address,), "/x")
        text = refused_start(replace(chroot_settings, coordination=target), "Connection refused")
    assert str(address) in text
    assert " ms" in text
    nowhere = CoordinationTarget((Address("no-such-host.invalid", 2181),))
    refused_start(replace(chroot_settings, coordination=nowhere), "resolved")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "broken"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a reply of 1213486160 bytes"),
        (b"\xff\xff\xff\xff", "a reply of -1 bytes"),
        (b"\0\0\0\5hello", "invalid server response"),
        (b"\0\0\0\x10" + b"\x01" * 16, "invalid server response"),
    ],
)
def test_what_is_not_zookeeper_is_told(reply: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())
        threading.Thread(target=answer_all, args=(listener, reply), daemon=True).start()
        settings = CoordinationSettings(CoordinationTarget((address,)))
        assert str(address) in refused_start(settings, reason)
        listener.shutdown(socket.SHUT_RDWR)


def answer_all(listener: socket.socket, reply: bytes) -> None:
    """The same to whatever is asked, until the listener is shut down."""
    with contextlib.suppress(OSError):
        while True:
            link, _ = listener.accept()
            # The other side may not wait for all of it.
            with link, contextlib.suppress(ConnectionError):
                link.recv(1000)
                link.sendall(reply)
                if reply:
                    link.recv(1000)


def test_an_ensemble_loses_its_leader_and_the_session_goes_on() -> None:
    async def use(store: ZooKeeperStore) -> None:
        states: list[SessionState] = []
        store.watch_session(states.append)
        session_id = store.session_id
        await store.commit([Create("/here", b"", ephemeral=True), Create("/count", b"")])
        running.leader().kill()
        # All members leave their clients alone while there is no leader.
        await until(lambda: SUSPENDED in states and store.session_state is CONNECTED)
        assert await store.commit([Replace("/count", b"", 0)]) == [1]
        assert store.session_id == session_id
        assert (await store.read("/here") or Node(b"", 0)).owner == session_id

    with zookeeper(3) as running:
        with_zookeeper(running.settings("/ensemble"), use)


def test_an_event_loop_that_stands_still_loses_its_session(chroot_settings: CoordinationSettings) -> None:
    """As on a disk that hangs. Its thread could keep the session for ever, and nobody would lead instead."""

    async def is_gone(store: ZooKeeperStore) -> bool:
        gone = asyncio.Event()
        store.watch("/here", lambda _: gone.set())
        while await store.read("/here") is not None:
            await gone.wait()
            gone.clear()
        return True

    async def use(store: ZooKeeperStore) -> None:
        states: list[SessionState] = []
        store.watch_session(states.append)
        await store.commit([Create("/here", b"", ephemeral=True)])
        with ThreadPoolExecutor(1) as others:
            # In the loop's own thread.
            assert others.submit(with_zookeeper, chroot_settings, is_gone).result(timeout=30)
        await until(lambda: states[-2:] == [LOST, CONNECTED])
        assert await store.commit([Create("/here", b"", ephemeral=True)]) == [0]

    with_zookeeper(replace(chroot_settings, session_timeout_ms=500), use)
