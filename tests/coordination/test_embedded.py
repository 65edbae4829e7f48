"""The embedded store over a real directory: lives, groups, watches, and what a start refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.coordination.stores import as_they_are, everything, plain, with_store
from tests.disk.faults import FaultyDisk

from penstock.coordination.core.frames import frame
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Change, Create, Node, Remove, Replace
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem
from penstock.units import KIB

DISK = LocalDisk()


def journal_of(directory: Path) -> Path:
    (journal,) = directory.glob("journal-*")
    return journal


def flip_byte(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(bytes(data))


def refused_start(directory: Path) -> str:
    with pytest.raises(PenstockError) as caught:
        EmbeddedStore.open(DISK, str(directory))
    assert caught.value.problem is Problem.STORAGE_FAILED
    return str(caught.value)


async def create_three(store: EmbeddedStore) -> None:
    for name in ("/a", "/b", "/c"):
        await store.commit([Create(name, name.encode())])


def test_what_was_answered_is_there_in_the_next_life(tmp_path: Path) -> None:
    async def first(store: EmbeddedStore) -> None:
        await store.commit([Create("/topics", b""), Create("/topics/orders", b"1"), Create("/gone", b"")])
        assert await store.commit([Replace("/topics/orders", b"2", 0), Remove("/gone", 0)]) == [1, 0]

    with_store(DISK, str(tmp_path), first)
    expected = {"/topics": Node(b"", 0), "/topics/orders": Node(b"2", 1)}
    assert with_store(DISK, str(tmp_path), everything) == expected
    assert with_store(DISK, str(tmp_path), everything) == expected


def test_commits_that_wait_together_are_decided_in_order(tmp_path: Path) -> None:
    async def race(store: EmbeddedStore) -> None:
        await store.commit([Create("/counter", b"")])
        attempts = [store.commit([Replace("/counter", b"%d" % number, 0)]) for number in range(600)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert outcomes[0] == [1]
        assert all(isinstance(o, PenstockError) and o.problem is Problem.STORE_CONFLICT for o in outcomes[1:])
        assert plain(await store.read("/counter")) == Node(b"0", 1)

    with_store(DISK, str(tmp_path), race)


def test_a_cancelled_caller_disturbs_nobody(tmp_path: Path) -> None:
    async def use(store: EmbeddedStore) -> None:
        first = asyncio.ensure_future(store.commit([Create("/a", b"")]))
        second = asyncio.ensure_future(store.commit([Create("/b", b"")]))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == [0]
        assert await store.children("/") == ["a", "b"]

    with_store(DISK, str(tmp_path), use)


def test_a_bug_lets_nobody_wait_and_is_said(tmp_path: Path) -> None:
    disk, bug = FaultyDisk(LocalDisk()), RuntimeError("nobody thought of this")

    async def use(store: EmbeddedStore) -> None:
        said: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context.get("exception")))
        disk.fail("write", path_part="journal-", bug=bug)
        async with asyncio.timeout(10):
            attempts = [store.commit([Create(f"/{number}", b"")]) for number in range(600)]
            for outcome in await asyncio.gather(*attempts, return_exceptions=True):
                assert isinstance(outcome, PenstockError) and outcome.problem is Problem.STORAGE_FAILED
            assert said == [bug]
            disk.heal()
            assert await store.commit([Create("/later", b"")]) == [0]

    with_store(disk, str(tmp_path), use)
    assert list(with_store(DISK, str(tmp_path), everything)) == ["/later"]


def test_a_watch_sees_changes_at_and_below_its_prefix(tmp_path: Path) -> None:
    async def use(store: EmbeddedStore) -> None:
        await store.commit([Create("/topics", b""), Create("/topicsx", b"")])
        seen: list[tuple[str, Node]] = []
        unwatch = store.watch("/topics", lambda path: seen.append((path, plain(loop_read(store, path)))))
        await store.commit([Create("/topics/a", b"1"), Replace("/topicsx", b"", 0), Replace("/topics", b"", 0)])
        assert seen == [("/topics/a", Node(b"1", 0)), ("/topics", Node(b"", 1))]
        unwatch()
        unwatch()
        await store.commit([Remove("/topics/a", 0)])
        assert len(seen) == 2

    with_store(DISK, str(tmp_path), use)


def loop_read(store: EmbeddedStore, path: str) -> Node | None:
    """Reads without waiting, as a callback must."""
    try:
        store.read(path).send(None)
    except StopIteration as answer:
        node: Node | None = answer.value
        return node
    raise AssertionError("the embedded store answers reads at once")


def test_the_journal_does_not_grow_for_ever(tmp_path: Path) -> None:
    async def use(store: EmbeddedStore) -> None:
        await store.commit([Create("/a", b"")])
        for version in range(150):
            await store.commit([Replace("/a", bytes(64 * KIB), version)])

    with_store(DISK, str(tmp_path), use)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2500 * KIB
    assert with_store(DISK, str(tmp_path), everything) == {"/a": Node(bytes(64 * KIB), 150)}


def test_a_torn_last_write_is_dropped_and_told(tmp_path: Path) -> None:
    with_store(DISK, str(tmp_path), create_three)
    journal = journal_of(tmp_path)
    journal.write_bytes(journal.read_bytes()[:-5])

    async def look(store: EmbeddedStore) -> tuple[list[str], int]:
        return await store.children("/"), store.torn_bytes

    names, torn_bytes = with_store(DISK, str(tmp_path), look)
    assert names == ["a", "b"]
    assert torn_bytes > 0
    assert with_store(DISK, str(tmp_path), look) == (["a", "b"], 0)


def test_damage_in_the_middle_of_the_journal_is_refused(tmp_path: Path) -> None:
    with_store(DISK, str(tmp_path), create_three)
    flip_byte(journal_of(tmp_path), 25)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    text = refused_start(tmp_path)
    assert journal_of(tmp_path).name in text
    assert "restore" in text
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("position", [0, 10, -1])
def test_a_damaged_snapshot_is_refused(tmp_path: Path, position: int) -> None:
    with_store(DISK, str(tmp_path), create_three)
    with_store(DISK, str(tmp_path), everything)
    flip_byte(tmp_path / "snapshot", position)
    assert "snapshot" in refused_start(tmp_path)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with_store(DISK, str(tmp_path), create_three)
    snapshot = tmp_path / "snapshot"
    content = snapshot.read_bytes()
    snapshot.unlink()
    assert "no snapshot" in refused_start(tmp_path)
    snapshot.write_bytes(content)
    journal_of(tmp_path).unlink()
    assert "missing" in refused_start(tmp_path)


def test_a_lost_snapshot_is_refused_although_nothing_was_written_since(tmp_path: Path) -> None:
    with_store(DISK, str(tmp_path), create_three)
    expected = with_store(DISK, str(tmp_path), everything)
    snapshot = tmp_path / "snapshot"
    content = snapshot.read_bytes()
    snapshot.unlink()
    assert journal_of(tmp_path).stat().st_size == 0
    for _ in range(2):
        text = refused_start(tmp_path)
        assert "no snapshot" in text
        assert "restore" in text
    snapshot.write_bytes(content)
    assert with_store(DISK, str(tmp_path), everything) == expected


def test_it_tells_that_it_began_empty_until_something_is_in_it(tmp_path: Path) -> None:
    async def look(store: EmbeddedStore) -> bool:
        return store.began_empty

    assert with_store(DISK, str(tmp_path), look)
    assert with_store(DISK, str(tmp_path), look)
    with_store(DISK, str(tmp_path), create_three)
    assert not with_store(DISK, str(tmp_path), look)
    for file in tmp_path.iterdir():
        file.unlink()
    assert with_store(DISK, str(tmp_path), look)


def test_a_store_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """Its nodes had neither a creation id nor an owner, its snapshots no highest id."""
    nodes = [["/a", b"1", 3], ["/b", b"", 0]]
    (tmp_path / "snapshot").write_bytes(frame(1, msgspec.msgpack.encode([1, nodes])))
    changes = [["/a", b"2", 4], ["/b", None, 0], ["/c", b"3", 0]]
    (tmp_path / f"journal-{1:020}").write_bytes(frame(1, msgspec.msgpack.encode(changes)))
    expected = {"/a": Node(b"2", 4), "/c": Node(b"3", 0)}
    assert with_store(DISK, str(tmp_path), as_they_are) == expected
    with_store(DISK, str(tmp_path), lambda store: store.commit([Create("/d", b"")]))
    assert with_store(DISK, str(tmp_path), as_they_are) == expected | {"/d": Node(b"", 0, created=1)}


def test_a_crash_in_the_first_start_is_no_loss(tmp_path: Path) -> None:
    with_store(DISK, str(tmp_path), everything)
    (tmp_path / "snapshot").rename(tmp_path / "snapshot.tmp")
    with_store(DISK, str(tmp_path), create_three)


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    async def life() -> None:
        store = EmbeddedStore.open(DISK, str(tmp_path))
        last: asyncio.Future[list[int]] = asyncio.ensure_future(store.commit([Create("/a", b"")]))
        await asyncio.sleep(0)
        await store.close()
        assert await last == [0]
        changes: list[Change] = [Create("/b", b"")]
        with pytest.raises(PenstockError, match="closed"):
            await store.commit(changes)

    asyncio.run(life())
