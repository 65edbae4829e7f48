"""What every store does: the embedded one and ZooKeeper, by the same tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.coordination.stores import Life, everything, plain

from penstock.coordination.interface import (
    CHANGE_OVERHEAD_BYTES,
    MAX_COMMIT_BYTES,
    MAX_NODE_BYTES,
    Change,
    Check,
    Create,
    Node,
    Remove,
    Replace,
    SessionState,
    Store,
)
from penstock.errors import PenstockError, Problem


async def refused(store: Store, changes: Sequence[Change]) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        await store.commit(changes)
    return caught.value


def test_versions_count_replacements(life: Life) -> None:
    async def use(store: Store) -> None:
        assert await store.commit([Create("/a", b"1"), Create("/a/b", b"")]) == [0, 0]
        changes: list[Change] = [Replace("/a", b"2", 0), Replace("/a", b"3", 1), Check("/a", 2)]
        assert await store.commit(changes) == [1, 2, 2]
        assert plain(await store.read("/a")) == Node(b"3", 2)
        assert await store.commit([Remove("/a/b", 0), Remove("/a", 2), Create("/a", b"new")]) == [0, 2, 0]
        assert await everything(store) == {"/a": Node(b"new", 0)}

    life(use)


def test_nothing_is_found_where_nothing_is(life: Life) -> None:
    async def use(store: Store) -> None:
        assert await store.read("/a") is None
        assert await store.read_many(["/a", "/a/b"]) == [None, None]
        assert await store.children("/a") == []
        assert await store.children("/") == []
        assert await store.commit([]) == []

    life(use)


CONFLICTS: list[list[Change]] = [
    [Create("/a", b"")],
    [Create("/x/y", b"")],
    [Create("/e/y", b"")],
    [Replace("/a", b"", 2)],
    [Replace("/a", b"", -1)],
    [Replace("/a", b"", 2**31)],
    [Replace("/x", b"", 0)],
    [Remove("/a", 1)],
    [Remove("/a/b", 1)],
    [Remove("/a/b", -1)],
    [Remove("/x", 0)],
    [Check("/a", 0)],
    [Check("/a", -1)],
    [Check("/x", 0)],
    [Remove("/a/b", 0), Check("/a/b", 0)],
    [Create("/new", b""), Replace("/a", b"new", 1), Check("/a", 1)],
]


def test_a_conflict_changes_nothing_and_names_the_node(life: Life) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create("/a", b"1"), Create("/a/b", b"2"), Create("/e", b"", ephemeral=True)])
        await store.commit([Replace("/a", b"1", 0)])
        before = await everything(store)
        for changes in CONFLICTS:
            error = await refused(store, changes)
            assert error.problem is Problem.STORE_CONFLICT, changes
            assert changes[-1].path in str(error)
            assert await everything(store) == before

    life(use)


BAD_PATHS = ["", "/", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\0", "/a\n", "/\ud800", "/\ufffd", "/\U0001f600"]


def test_what_no_store_can_hold_is_refused(life: Life) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create("/a", b"")])
        for path in BAD_PATHS:
            assert (await refused(store, [Create(path, b"")])).problem is Problem.INVALID_REQUEST
            if path != "/":
                for call in (store.read(path), store.read_many(["/a", path]), store.children(path)):
                    with pytest.raises(PenstockError, match="not a path"):
                        await call
                with pytest.raises(PenstockError, match="not a path"):
                    store.watch(path, print)
        largest = bytes(MAX_NODE_BYTES)
        await store.commit([Replace("/a", largest, 0)])
        node = await store.read("/a")
        assert node is not None and node.data == largest
        error = await refused(store, [Replace("/a", largest + b"1", 1)])
        assert error.problem is Problem.INVALID_REQUEST
        assert str(MAX_NODE_BYTES) in str(error)

    life(use)


def test_the_largest_commit_fits_and_a_larger_one_is_refused(life: Life) -> None:
    count = MAX_COMMIT_BYTES // (CHANGE_OVERHEAD_BYTES + len("/0000"))
    names = [f"/{number:04}" for number in range(count + 1)]

    async def use(store: Store) -> None:
        error = await refused(store, [Create(name, b"") for name in names])
        assert error.problem is Problem.INVALID_REQUEST
        assert await store.children("/") == []
        await store.commit([Create(name, b"") for name in names[:-1]])
        assert len(await store.children("/")) == count

    life(use)


def test_names_and_data_come_back_as_they_were(life: Life) -> None:
    nodes = {"/Grüße, 世界": b"\x00\xff", "/a.b_c-d~": b"", "/ x": b"y"}

    async def use(store: Store) -> None:
        await store.commit([Create(path, data) for path, data in nodes.items()])
        assert await store.children("/") == sorted(path[1:] for path in nodes)
        found = await store.read_many(list(nodes))
        assert [plain(node) for node in found] == [Node(data, 0) for data in nodes.values()]

    life(use)


def test_creation_ids_grow_for_ever(life: Life) -> None:
    seen: list[int] = []

    async def use(store: Store) -> None:
        for path in ("/a", "/b"):
            await store.commit([Create(path, b"", ephemeral=True)])
            node = await store.read(path)
            assert node is not None
            seen.append(node.created)
            await store.commit([Replace(path, b"x", 0)])
            assert (await store.read(path) or node).created == node.created
        await store.commit([Remove("/b", 1)])
        await store.commit([Create("/b", b"")])
        node = await store.read("/b")
        assert node is not None
        seen.append(node.created)
        await store.commit([Remove("/b", 0)])

    for _ in range(3):
        life(use)
    assert seen == sorted(set(seen))


def test_an_ephemeral_node_lasts_as_long_as_its_session(life: Life) -> None:
    async def first(store: Store) -> None:
        assert store.session_state is SessionState.CONNECTED
        await store.commit([Create("/stays", b""), Create("/goes", b"", ephemeral=True), Create("/too", b"", True)])
        goes = await store.read("/goes")
        stays = await store.read("/stays")
        assert goes is not None and goes.owner == store.session_id
        assert stays is not None and stays.owner is None
        await store.commit([Replace("/goes", b"new", 0), Remove("/too", 0)])
        assert ((await store.read("/goes")) or stays).owner == store.session_id
        sessions.append(store.session_id)

    async def second(store: Store) -> None:
        await store.sync()
        assert await everything(store) == {"/stays": Node(b"", 0)}
        sessions.append(store.session_id)

    sessions: list[int | None] = []
    life(first)
    life(second)
    assert None not in sessions
    assert len(set(sessions)) == 2


def test_commits_that_are_sent_together_are_decided_in_order(life: Life) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create("/counter", b"")])
        attempts = [store.commit([Replace("/counter", b"%d" % number, 0)]) for number in range(600)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert outcomes[0] == [1]
        assert all(isinstance(o, PenstockError) and o.problem is Problem.STORE_CONFLICT for o in outcomes[1:])
        assert plain(await store.read("/counter")) == Node(b"0", 1)

    life(use)


def test_a_cancelled_caller_disturbs_nobody(life: Life) -> None:
    async def use(store: Store) -> None:
        first = asyncio.ensure_future(store.commit([Create("/a", b"")]))
        second = asyncio.ensure_future(store.commit([Create("/b", b"")]))
        reads = asyncio.ensure_future(store.read_many(["/a"] * 100))
        await asyncio.sleep(0)
        first.cancel()
        reads.cancel()
        assert await second == [0]
        assert await store.children("/") == ["a", "b"]

    life(use)


def test_a_watch_sees_changes_at_and_below_its_prefix_before_they_are_answered(life: Life) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create("/topics", b""), Create("/topicsx", b"")])
        seen: list[str] = []
        unwatch = store.watch("/topics", seen.append)
        changes: list[Change] = [
            Create("/topics/a", b"1"),
            Create("/topics/a/deep", b"1"),
            Replace("/topicsx", b"", 0),
            Replace("/topics", b"", 0),
        ]
        await store.commit(changes)
        assert set(seen) == {"/topics/a", "/topics/a/deep", "/topics"}
        seen.clear()
        await store.commit([Remove("/topics/a/deep", 0)])
        await store.commit([Replace("/topics/a", b"2", 0)])
        assert seen == ["/topics/a/deep", "/topics/a"]
        unwatch()
        unwatch()
        await store.commit([Remove("/topics/a", 1)])
        assert len(seen) == 2

    life(use)


def test_watches_do_not_disturb_each_other(life: Life) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create("/root-is-there", b"")])
        below: list[str] = []
        root: list[str] = []
        first: list[str] = []
        second: list[str] = []
        unwatch_first = store.watch("/a", first.append)
        store.watch("/a", second.append)
        store.watch("/a/b", below.append)
        store.watch("/", root.append)
        await store.commit([Create("/a", b"")])
        unwatch_first()
        await store.commit([Create("/a/b", b"")])
        assert (first, second, below, root) == (["/a"], ["/a", "/a/b"], ["/a/b"], ["/a", "/a/b"])

    life(use)


def test_a_callback_that_fails_is_said_and_stops_nobody(life: Life) -> None:
    async def use(store: Store) -> None:
        said: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
        bug = RuntimeError("nobody thought of this")
        seen: list[str] = []

        def fail(path: str) -> None:
            raise bug

        await store.commit([Create("/root-is-there", b"")])
        store.watch("/", fail)
        store.watch("/", seen.append)
        await store.commit([Create("/a", b"")])
        assert said == [bug]
        assert seen == ["/a"]

    life(use)
