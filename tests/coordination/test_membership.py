"""What a start refuses, on either store, and that it has written nothing then."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.coordination.stores import Life, as_they_are, with_two, with_zookeeper

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.data_directory import DataDirectory
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Create, Remove, Store
from penstock.coordination.membership import Membership, join_cluster
from penstock.coordination.paths import FORMAT, REGISTRATION, REGISTRATIONS, Registration, registration_path
from penstock.coordination.registration import register
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem

DISK = LocalDisk()


def registration_of(directory_id: UUID, port: int = 9092) -> Registration:
    return Registration("here.example", port, "machine", None, directory_id, clean=True)


async def join(store: Store, data_dir: Path, node_id: int = 1, patience_ms: int = 0) -> Membership:
    data_dir.mkdir(exist_ok=True)
    is_private = not isinstance(store, ZooKeeperStore)
    directory = DataDirectory(DISK, str(data_dir))
    return await join_cluster(store, directory, node_id, is_private=is_private, patience_ms=patience_ms)


async def refused(store: Store, data_dir: Path, node_id: int = 1) -> PenstockError:
    """The reason; the store and the directory are as they were."""
    data_dir.mkdir(exist_ok=True)
    nodes, files = await as_they_are(store), {file.name: file.read_bytes() for file in data_dir.iterdir()}
    with pytest.raises(PenstockError) as caught:
        await join(store, data_dir, node_id)
    assert await as_they_are(store) == nodes
    assert {file.name: file.read_bytes() for file in data_dir.iterdir()} == files
    return caught.value


def test_the_cluster_and_the_directory_keep_their_ids(life: Life, tmp_path: Path) -> None:
    first = life(lambda store: join(store, tmp_path / "data"))
    assert life(lambda store: join(store, tmp_path / "data")) == first
    other = life(lambda store: join(store, tmp_path / "other", node_id=2))
    assert other.cluster_id == first.cluster_id
    assert other.directory_id != first.directory_id
    assert (tmp_path / "data" / "cluster-id").read_text() == first.cluster_id + "\n"


def test_a_directory_of_another_cluster_is_refused(life: Life, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "cluster-id").write_text("theirs\n")

    async def use(store: Store) -> None:
        error = await refused(store, data_dir)
        assert error.problem is Problem.INVALID_CONFIG
        assert "no cluster yet" in str(error)
        mine = await join(store, tmp_path / "mine")
        text = str(await refused(store, data_dir))
        assert "theirs" in text
        assert mine.cluster_id in text
        assert str(data_dir) in text

    life(use)


@pytest.mark.parametrize("name", ["cluster-id", "directory-id"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a b", b"x" * 1000])
def test_damaged_id_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PenstockError, match=name) as caught:
        DataDirectory(DISK, str(tmp_path))
    assert caught.value.problem is Problem.STORAGE_FAILED


def test_a_directory_id_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "directory-id").write_text("abc\n")
    with pytest.raises(PenstockError, match="directory-id"):
        DataDirectory(DISK, str(tmp_path))


@pytest.mark.parametrize(
    ("data", "problem", "word"),
    [
        (b'{"format":0}', Problem.INVALID_CONFIG, "releases in between"),
        (b'{"format":99}', Problem.INVALID_CONFIG, "upgrade this node"),
        (b"garbage", Problem.STORAGE_FAILED, FORMAT),
        (b"", Problem.STORAGE_FAILED, FORMAT),
    ],
)
def test_another_format_is_refused(life: Life, tmp_path: Path, data: bytes, problem: Problem, word: str) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create(FORMAT, data)])
        error = await refused(store, tmp_path / "data")
        assert error.problem is problem
        assert word in str(error)

    life(use)


@pytest.mark.parametrize("path", ["/cluster-id", registration_path(1), registration_path(7)])
def test_garbage_in_a_node_is_refused_with_its_path(life: Life, tmp_path: Path, path: str) -> None:
    async def use(store: Store) -> None:
        await join(store, tmp_path / "data")
        if node := await store.read(path):
            await store.commit([Remove(path, node.version)])
        await store.commit([Create(path, b"\xff garbage")])
        error = await refused(store, tmp_path / "new")
        assert error.problem is Problem.STORAGE_FAILED
        assert path in str(error)

    life(use)


def test_a_chroot_that_something_else_uses_is_refused(chroot_settings: CoordinationSettings, tmp_path: Path) -> None:
    async def use(store: ZooKeeperStore) -> None:
        await store.commit([Create("/brokers", b""), Create("/isr_change_notification", b"")])
        error = await refused(store, tmp_path / "data")
        assert error.problem is Problem.INVALID_CONFIG
        assert "isr_change_notification" in str(error)
        assert "chroot" in str(error)

    with_zookeeper(chroot_settings, use)


def test_the_directory_of_a_node_of_its_own_is_refused_by_a_cluster(
    chroot_settings: CoordinationSettings, tmp_path: Path
) -> None:
    (tmp_path / "data" / "coordination").mkdir(parents=True)

    async def use(store: ZooKeeperStore) -> None:
        with pytest.raises(PenstockError, match="node of its own"):
            await join(store, tmp_path / "data")
        assert await store.read("/") is None

    with_zookeeper(chroot_settings, use)


def test_an_embedded_store_of_an_early_release_is_taken_on(life: Life, tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        if isinstance(store, ZooKeeperStore):
            return
        await store.commit([Create("/cluster-id", b'{"cluster_id":"old"}'), Create("/topics", b"")])
        assert (await join(store, tmp_path / "data")).cluster_id == "old"
        assert await store.read(FORMAT) is not None

    life(use)


def test_a_registration_gives_an_epoch_once_per_session(life: Life, tmp_path: Path) -> None:
    epochs: list[int] = []

    async def use(store: Store) -> None:
        member = await join(store, tmp_path / "data")
        wanted = registration_of(member.directory_id)
        epochs.append(await register(store, 1, wanted))
        assert await register(store, 1, wanted) == epochs[-1]
        node = await store.read(registration_path(1))
        assert node is not None
        assert (node.created, node.owner) == (epochs[-1], store.session_id)
        assert REGISTRATION.decode(node.data, "") == wanted
        # At another address it is another registration.
        epochs.append(await register(store, 1, registration_of(member.directory_id, port=9093)))

    life(use)
    life(use)
    assert epochs == sorted(set(epochs))


def test_two_live_brokers_with_one_id_are_refused(chroot_settings: CoordinationSettings, tmp_path: Path) -> None:
    async def use(first: ZooKeeperStore, second: ZooKeeperStore) -> None:
        mine = await join(first, tmp_path / "mine")
        await register(first, 1, registration_of(mine.directory_id))
        error = await refused(second, tmp_path / "theirs")
        assert error.problem is Problem.INVALID_CONFIG
        assert "broker id 1 is in use" in str(error)
        assert "here.example:9092" in str(error)
        with pytest.raises(PenstockError, match="broker id 1 is in use"):
            await register(second, 1, registration_of(uuid4()))
        # Another id is fine, but not with a copy of the directory.
        shutil.copytree(tmp_path / "mine", tmp_path / "copy")
        assert "copy" in str(await refused(second, tmp_path / "copy", node_id=2))
        await join(second, tmp_path / "theirs", node_id=2)

    with_two(chroot_settings, use)


def test_a_broker_replaces_what_its_dead_process_left(chroot_settings: CoordinationSettings, tmp_path: Path) -> None:
    async def use(dead: ZooKeeperStore, alive: ZooKeeperStore) -> None:
        member = await join(dead, tmp_path / "data")
        old = await register(dead, 1, registration_of(member.directory_id))
        assert await join(alive, tmp_path / "data") == member
        new = await register(alive, 1, registration_of(member.directory_id))
        assert new > old
        node = await alive.read(registration_path(1))
        assert node is not None and node.owner == alive.session_id
        assert await alive.children(REGISTRATIONS) == ["1"]

    with_two(chroot_settings, use)


def test_a_broker_with_a_new_disk_waits_for_the_end_of_its_old_session(
    chroot_settings: CoordinationSettings, tmp_path: Path
) -> None:
    async def use(dead: ZooKeeperStore, alive: ZooKeeperStore) -> None:
        member = await join(dead, tmp_path / "old")
        await register(dead, 1, registration_of(member.directory_id))
        joining = asyncio.ensure_future(join(alive, tmp_path / "new", patience_ms=20_000))
        await alive.sync()
        assert not joining.done()
        await dead.close()
        new = await joining
        assert new.cluster_id == member.cluster_id
        await register(alive, 1, registration_of(new.directory_id))

    with_two(chroot_settings, use)


def test_first_starts_at_the_same_time_make_one_cluster(chroot_settings: CoordinationSettings, tmp_path: Path) -> None:
    async def use(first: ZooKeeperStore, second: ZooKeeperStore) -> None:
        members = await asyncio.gather(join(first, tmp_path / "1", 1), join(second, tmp_path / "2", 2))
        assert len({member.cluster_id for member in members}) == 1
        epochs = [
            await register(store, node_id, registration_of(member.directory_id))
            for store, node_id, member in zip((first, second), (1, 2), members, strict=True)
        ]
        assert len(set(epochs)) == 2

    with_two(chroot_settings, use)


class Overtaken(EmbeddedStore):
    """Between two questions of the first node a second one joins."""

    overtaker: Path | None = None

    async def children(self, path: str) -> list[str]:
        if (data_dir := self.overtaker) is not None:
            self.overtaker = None
            await join_cluster(self, DataDirectory(DISK, str(data_dir)), 2, is_private=False)
        return await super().children(path)


def test_a_first_start_that_another_overtakes_is_not_refused(tmp_path: Path) -> None:
    async def use() -> None:
        store = Overtaken.open(DISK, str(tmp_path))
        assert isinstance(store, Overtaken)
        store.overtaker = tmp_path / "2"
        for data_dir in (tmp_path / "1", tmp_path / "2"):
            data_dir.mkdir()
        directory = DataDirectory(DISK, str(tmp_path / "1"))
        joined = await join_cluster(store, directory, 1, is_private=False)
        assert (tmp_path / "2" / "cluster-id").read_text() == joined.cluster_id + "\n"
        await store.close()

    asyncio.run(use())
