"""A store whose connection fails, or stands still, when a test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from penstock.coordination.interface import Change, Node, SessionState, Store, Unwatch
from penstock.errors import PenstockError, Problem


class Hold:
    """One call: `reached` when it was carried out; its answer comes when `answered` is set."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.answered = asyncio.Event()


class FaultyStore:
    """Faults are by operation (`read`, `children`, `commit`) and a path that it names; each is met once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failing: list[tuple[str, str]] = []
        self._holds: dict[tuple[str, str], Hold] = {}
        self._sessions: list[Callable[[SessionState], None]] = []
        # How many were tried.
        self.commits = 0

    def fail(self, operation: str, path: str) -> None:
        """Before anything is sent."""
        self._failing.append((operation, path))

    def hold(self, operation: str, path: str) -> Hold:
        hold = self._holds[operation, path] = Hold()
        return hold

    def lose_session(self) -> None:
        for callback in list(self._sessions):
            callback(SessionState.LOST)

    def _begin(self, operation: str, paths: Sequence[str]) -> None:
        for path in paths:
            if (operation, path) in self._failing:
                self._failing.remove((operation, path))
                raise PenstockError(Problem.STORE_UNAVAILABLE, "the connection was lost")

    async def _end(self, operation: str, paths: Sequence[str]) -> None:
        for path in paths:
            if (hold := self._holds.pop((operation, path), None)) is not None:
                hold.reached.set()
                await hold.answered.wait()

    async def sync(self) -> None:
        await self._store.sync()

    async def commit(self, changes: Sequence[Change]) -> list[int]:
        self.commits += 1
        paths = [change.path for change in changes]
        self._begin("commit", paths)
        versions = await self._store.commit(changes)
        await self._end("commit", paths)
        return versions

    async def read(self, path: str) -> Node | None:
        return (await self.read_many([path]))[0]

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        self._begin("read", paths)
        nodes = await self._store.read_many(paths)
        await self._end("read", paths)
        return nodes

    async def children(self, path: str) -> list[str]:
        self._begin("children", [path])
        names = await self._store.children(path)
        await self._end("children", [path])
        return names

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        return self._store.watch(prefix, callback)

    @property
    def session_state(self) -> SessionState:
        return self._store.session_state

    @property
    def session_id(self) -> int | None:
        return self._store.session_id

    def watch_session(self, callback: Callable[[SessionState], None]) -> Unwatch:
        self._sessions.append(callback)
        return lambda: self._sessions.remove(callback)

    @property
    def failure(self) -> str | None:
        return self._store.failure

    async def close(self) -> None:
        await self._store.close()
