"""Whatever is committed, the embedded store and ZooKeeper answer alike and hold the same."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordination.stores import everything
from tests.scale import examples

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Change, Check, Create, Node, Remove, Replace, Store
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError

names = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/z", "/a/x/deep"])
versions = st.integers(-1, 2)
contents = st.binary(max_size=3)
changes = st.one_of(
    st.builds(Create, names, contents, st.booleans()),
    st.builds(Replace, names, contents, versions),
    st.builds(Remove, names, versions),
    st.builds(Check, names, versions),
)
commits = st.lists(st.lists(changes, min_size=1, max_size=4), min_size=1, max_size=8)


def below(prefix: str, change: Change) -> Change:
    return change._replace(path=prefix + change.path)


async def outcomes(store: Store, prefix: str, history: list[list[Change]]) -> list[object]:
    """What each commit answered, and what its watch was told."""
    await store.commit([Create(prefix, b"")])
    told: list[str] = []
    unwatch = store.watch(prefix, told.append)
    found: list[object] = []
    for commit in history:
        try:
            found.append(await store.commit([below(prefix, change) for change in commit]))
        except PenstockError as error:
            found.append(error.problem)
        found.append(frozenset(told))
        told.clear()
    unwatch()
    return found


def test_the_same_commits_have_the_same_outcome(chroot_settings: CoordinationSettings, tmp_path: Path) -> None:
    embedded = EmbeddedStore.open(LocalDisk(), str(tmp_path))
    prefixes = (f"/{number}" for number in itertools.count())

    with asyncio.Runner() as runner:
        zookeeper = runner.run(ZooKeeperStore.open(chroot_settings))

        @settings(max_examples=examples(40))
        @given(commits)
        def compare(history: list[list[Change]]) -> None:
            prefix = next(prefixes)
            here = runner.run(outcomes(embedded, prefix, history))
            there = runner.run(outcomes(zookeeper, prefix, history))
            assert here == there
            nodes: dict[str, Node] = runner.run(everything(embedded, prefix))
            assert nodes == runner.run(everything(zookeeper, prefix))

        compare()
        runner.run(zookeeper.close())
        runner.run(embedded.close())
