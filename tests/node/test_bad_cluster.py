"""A node that does not fit its cluster says so at its start, and leaves everything as it was."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.testing
from penstock.coordination.interface import Change, Create, Replace
from penstock.coordination.paths import CONTROLLER_EPOCH, FORMAT, TOPICS
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.errors import PenstockError
from penstock.testing.zookeeper import TestZooKeeper, zookeeper

_chroots = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with zookeeper(settings={"minSessionTimeout": "500"}) as running:
        yield running


@pytest.fixture
def chroot() -> str:
    return f"/bad/{next(_chroots)}"


def refusal(coordination: str, data_dir: Path, node_id: int = 1) -> str:
    """What a start is refused with."""
    settings = {
        "coordination": coordination,
        "node.id": str(node_id),
        "zookeeper.session.timeout.ms": "500",
        "zookeeper.connection.timeout.ms": "1000",
    }
    with pytest.raises(PenstockError) as raised, penstock.testing.node(settings, data_dir=str(data_dir)):
        pass
    return str(raised.value)


def run_once(coordination: str, data_dir: Path) -> None:
    with penstock.testing.node({"coordination": coordination}, data_dir=str(data_dir)):
        pass


def files(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.iterdir()} - {".lock"}


def change(server: TestZooKeeper, chroot: str, path: str, data: bytes) -> None:
    """As somebody who is no broker does."""

    async def write() -> None:
        store = await ZooKeeperStore.open(server.settings(chroot))
        node = await store.read(path)
        changed: Change = Create(path, data) if node is None else Replace(path, data, node.version)
        await store.commit([changed])
        await store.close()

    asyncio.run(write())


def names(server: TestZooKeeper, chroot: str) -> list[str]:
    async def look() -> list[str]:
        store = await ZooKeeperStore.open(server.settings(chroot))
        found = await store.children("/")
        await store.close()
        return found

    return asyncio.run(look())


def test_without_zookeeper_the_command_says_where_it_looked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--coordination", "zookeeper://127.0.0.1:1/orders"]
    command += ["--set", "zookeeper.connection.timeout.ms=500"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert ended.returncode == 1
    assert "no ZooKeeper server of zookeeper://127.0.0.1:1/orders answered within 500 ms" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert files(tmp_path / "data") == set()


def test_a_chroot_that_something_else_uses_is_left_alone(server: TestZooKeeper, chroot: str, tmp_path: Path) -> None:
    change(server, chroot, "/stuff", b"1")
    assert "nodes that are not Penstock's (stuff)" in refusal(server.target(chroot), tmp_path)
    assert names(server, chroot) == ["stuff"]
    assert files(tmp_path) == set()


def test_two_brokers_with_one_id(server: TestZooKeeper, chroot: str, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with penstock.testing.node({"coordination": server.target(chroot)}) as first:
        said = refusal(server.target(chroot), tmp_path / "second")
        assert f"broker id 1 is in use by the broker at {first.bootstrap}" in said
    assert files(tmp_path / "second") == set()


def test_a_copy_of_a_live_brokers_directory(server: TestZooKeeper, chroot: str, tmp_path: Path) -> None:
    coordination = server.target(chroot)
    with penstock.testing.node({"coordination": coordination}, data_dir=str(tmp_path / "data")) as original:
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        text = refusal(coordination, tmp_path / "copy")
        assert f"the broker at {original.bootstrap} has a copy of this data directory" in text
    # Of one that is dead it is as good as the original.
    run_once(coordination, tmp_path / "copy")


def test_a_broker_of_another_cluster(server: TestZooKeeper, chroot: str, tmp_path: Path) -> None:
    run_once(server.target(chroot + "/one"), tmp_path / "data")
    before = files(tmp_path / "data")
    run_once(server.target(chroot + "/two"), tmp_path / "other")
    assert "belongs to cluster" in refusal(server.target(chroot + "/two"), tmp_path / "data")
    # A chroot that is misspelt is an empty one.
    assert "no cluster yet" in refusal(server.target(chroot + "/none"), tmp_path / "data")
    assert "name that cluster's ZooKeeper" in refusal("embedded", tmp_path / "data")
    assert files(tmp_path / "data") == before
    run_once("embedded", tmp_path / "alone")
    assert "belongs to cluster" in refusal(server.target(chroot + "/two"), tmp_path / "alone")


@pytest.mark.parametrize(("found", "advice"), [(0, "releases in between"), (9, "upgrade this node")])
def test_a_format_of_another_release(
    server: TestZooKeeper, chroot: str, tmp_path: Path, found: int, advice: str
) -> None:
    run_once(server.target(chroot), tmp_path)
    change(server, chroot, FORMAT, b'{"format":%d}' % found)
    assert advice in refusal(server.target(chroot), tmp_path)


@pytest.mark.parametrize("path", [CONTROLLER_EPOCH, FORMAT, f"{TOPICS}/orders"])
def test_garbage_in_a_node_is_named(server: TestZooKeeper, chroot: str, tmp_path: Path, path: str) -> None:
    run_once(server.target(chroot), tmp_path)
    change(server, chroot, path, b"garbage")
    assert f"{path} in the coordination store does not hold" in refusal(server.target(chroot), tmp_path)
