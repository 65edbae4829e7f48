"""The embedded store over a disk whose power is cut at any operation: what it answered is there afterwards."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.coordination.stores import as_they_are, everything
from tests.disk.crash import CrashingDisk, PowerOff
from tests.scale import examples

from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Change, Create, Node, Remove, Replace
from penstock.errors import PenstockError, Problem

State = dict[str, Node]
DIRECTORY = "/data/coordination"
ROOT = Node(b"", 0)

paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y"])
versions = st.integers(0, 2)
# Some larger than a page, so that a write can be torn.
contents = st.binary(max_size=4) | st.integers(1, 1500).map(lambda size: b"z" * size)
changes = st.one_of(
    st.builds(Create, paths, contents),
    st.builds(Replace, paths, contents, versions),
    st.builds(Remove, paths, versions),
)
# Not st.randoms(): its numbers tend to the ends of their range, and then all is lost or all is kept.
chance = st.integers(0, 2**32 - 1).map(Random)
commits = st.lists(changes, min_size=1, max_size=3)


def in_the_next_life(state: State) -> State:
    return {path: node for path, node in state.items() if node.owner is None}


def applied(state: State, commit: list[Change]) -> State | None:
    """The model; None is a conflict."""
    after = dict(state)
    for change in commit:
        node = after.get(change.path)
        match change:
            case Create(path, data, ephemeral):
                name = path.rpartition("/")[0]
                parent = after.get(name) if name else ROOT
                if node is not None or parent is None or parent.owner is not None:
                    return None
                after[path] = Node(data, 0, owner=0 if ephemeral else None)
            case Replace(path, data, version):
                if node is None or node.version != version:
                    return None
                after[path] = node._replace(data=data, version=version + 1)
            case Remove(path, version):
                if node is None or node.version != version or any(p.startswith(path + "/") for p in after):
                    return None
                del after[path]
    return after


class PowerCuts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = CrashingDisk()
        self.state: State = {}
        self.created: set[int] = set()
        self.open()

    def open(self) -> None:
        self.store = EmbeddedStore.open(self.disk, DIRECTORY, full_journal_bytes=3000)
        # A failed sync leaves the store refusing, and what was being written may be there or not.
        self.failed = False
        self.possible: list[State] = []

    def teardown(self) -> None:
        self.disk.operations_left = None
        self.close()
        self.loop.close()

    def close(self) -> None:
        with suppress(PowerOff, asyncio.CancelledError):
            self.loop.run_until_complete(self.store.close())

    @rule(group=st.lists(commits, min_size=1, max_size=3))
    def commit(self, group: list[list[Change]]) -> None:
        async def all_at_once() -> list[list[int] | BaseException]:
            return await asyncio.gather(*map(self.store.commit, group), return_exceptions=True)

        try:
            outcomes = self.loop.run_until_complete(all_at_once())
        except PowerOff:
            outcomes = [asyncio.CancelledError()] * len(group)
        for commit, outcome in zip(group, outcomes, strict=True):
            self.judge(commit, outcome)

    def judge(self, commit: list[Change], outcome: list[int] | BaseException) -> None:
        newest = self.possible[-1] if self.possible else self.state
        after = applied(newest, commit)
        if isinstance(outcome, PenstockError) and outcome.problem is Problem.STORE_CONFLICT:
            assert after is None
            assert not self.failed
        elif isinstance(outcome, list):
            assert after is not None
            assert not self.failed
            self.state = after
            assert outcome == [_version(change) for change in commit]
        else:
            refused = isinstance(outcome, PenstockError) and outcome.problem is Problem.STORAGE_FAILED
            assert refused or isinstance(outcome, asyncio.CancelledError)
            if after is not None:
                self.possible.append(after)

    @rule(operations=st.integers(0, 25), group=st.lists(commits, min_size=1, max_size=3), choose=chance)
    def commit_until_the_power_is_cut(self, operations: int, group: list[list[Change]], choose: Random) -> None:
        self.disk.operations_left = operations
        self.commit(group)
        self.cut(choose)

    @rule(choose=chance)
    def cut(self, choose: Random) -> None:
        self.disk.operations_left = None
        self.close()
        self.disk.cut_power(choose)
        self.reopen_and_compare()

    @rule(operations=st.integers(0, 25), choose=chance)
    def cut_while_starting(self, operations: int, choose: Random) -> None:
        self.close()
        self.disk.operations_left = operations
        with suppress(PowerOff):
            EmbeddedStore.open(self.disk, DIRECTORY, full_journal_bytes=3000)
        self.disk.operations_left = None
        self.disk.cut_power(choose)
        self.reopen_and_compare()

    @rule()
    def kill(self) -> None:
        self.close()
        self.reopen_and_compare()

    @rule(group=st.lists(commits, min_size=1, max_size=2))
    def commit_on_a_full_disk(self, group: list[list[Change]]) -> None:
        self.disk.capacity_bytes = 0
        before, failed = dict(self.state), self.failed
        self.commit(group)
        self.disk.capacity_bytes = None
        if not failed:
            # Nothing of it is there, and the store goes on.
            assert self.state == before
            self.possible = []

    @precondition(lambda self: not self.failed)
    @rule(group=st.lists(commits, min_size=1, max_size=2))
    def commit_with_a_failing_sync(self, group: list[list[Change]]) -> None:
        if all(applied(self.state, commit) is None for commit in group):
            return
        self.disk.fail_next("sync", errno.EIO)
        before = dict(self.state)
        self.commit(group)
        assert self.state == before
        assert self.possible
        self.failed = True

    def reopen_and_compare(self) -> None:
        possible = [in_the_next_life(state) for state in (self.state, *self.possible)]
        self.open()
        self.state = self.loop.run_until_complete(everything(self.store))
        assert self.state in possible

    @invariant()
    def shows_what_is_committed(self) -> None:
        if not self.possible:
            assert self.loop.run_until_complete(everything(self.store)) == self.state

    @invariant()
    def gives_no_creation_id_twice(self) -> None:
        shown = {node.created for node in self.loop.run_until_complete(as_they_are(self.store)).values()}
        fresh = shown - self.created
        assert not self.created or not fresh or min(fresh) > max(self.created)
        self.created |= fresh


def _version(change: Change) -> int:
    match change:
        case Create():
            return 0
        case Replace(_, _, version):
            return version + 1
        case _:
            return change.version


TestPowerCuts = PowerCuts.TestCase
TestPowerCuts.settings = settings(max_examples=examples(60), stateful_step_count=15)
