"""One ZooKeeper server for the whole run; every test that uses it has a chroot of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.coordination.stores import Life, with_store, with_zookeeper

from penstock.config.coordination import CoordinationSettings
from penstock.disk.local import LocalDisk
from penstock.testing.zookeeper import TestZooKeeper, zookeeper

_numbers = itertools.count()


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[TestZooKeeper]:
    # Sessions may be lost in half a second, so that tests of that need not wait for long.
    with zookeeper(settings={"minSessionTimeout": "500"}) as running:
        yield running


@pytest.fixture
def chroot_settings(zookeeper_server: TestZooKeeper) -> CoordinationSettings:
    return zookeeper_server.settings(f"/tests/{next(_numbers)}")


@pytest.fixture(params=["embedded", "zookeeper"])
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Life:
    """One life of a process with a store; the next finds what the one before left."""
    if request.param == "embedded":
        return lambda use: with_store(LocalDisk(), str(tmp_path / "coordination"), use)
    settings: CoordinationSettings = request.getfixturevalue("chroot_settings")
    return lambda use: with_zookeeper(settings, use)
