"""The store of a cluster: ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.core.limits import check_commit
from penstock.coordination.interface import Change, Create, Node, Replace, SessionState, Unwatch
from penstock.coordination.watches import Watches
from penstock.coordination.zookeeper_connection import StateChange, ZooKeeperConnection
from penstock.coordination.zookeeper_requests import AlreadyMadeError, ZooKeeperRequests, final_reason
from penstock.coordination.zookeeper_tls import check_tls
from penstock.errors import PenstockError, Problem

# ZooKeeper's own, at its root.
_RESERVED = "zookeeper"


class ZooKeeperStore:
    """Implements `Store` for one event loop. A chroot that does not exist is made by the first commit."""

    def __init__(self, settings: CoordinationSettings) -> None:
        self._target = settings.coordination
        self._root = settings.coordination.chroot
        self._timeout_ms = settings.connection_timeout_ms
        # Full paths of those nodes above and at the root that are not there.
        self._missing_root: list[str] = []
        self._state = SessionState.LOST
        self._session_id: int | None = None
        self._failure: str | None = None
        self._watches = Watches(began=self._arm, ended=self._disarm)
        self._session_watches: dict[object, Callable[[SessionState], None]] = {}
        self._connection = ZooKeeperConnection(settings, self._changed, self._seen)
        self._requests = ZooKeeperRequests(settings, self._connection)

    @classmethod
    async def open(cls, settings: CoordinationSettings) -> Self:
        """Raises PenstockError: STORE_UNAVAILABLE when no server answers in time, INVALID_CONFIG for files that cannot
        be used, STORAGE_FAILED when it may not read. Writes nothing.
        """
        check_tls(settings)
        store = cls(settings)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(store.close)
            try:
                async with asyncio.timeout(settings.connection_timeout_ms / 1000):
                    await store._begin()
            except TimeoutError:
                raise store._unreachable() from None
            stack.pop_all()
        return store

    async def _begin(self) -> None:
        await self._connection.start()
        if self.failure is not None:
            raise PenstockError(Problem.STORE_UNAVAILABLE, f"{self._target}: {self.failure}")
        await self._requests.try_watch()
        names = self._root.split("/")[1:] if self._root else []
        levels = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
        self._missing_root = [level for level in levels if not await self._requests.exists(level)]

    async def close(self) -> None:
        """Ends the session, and with it its ephemeral nodes, if ZooKeeper can be reached."""
        await self._connection.stop()

    @property
    def failure(self) -> str | None:
        return self._failure or self._connection.failure

    @property
    def session_state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int | None:
        return self._session_id

    def watch_session(self, callback: Callable[[SessionState], None]) -> Unwatch:
        key = object()
        self._session_watches[key] = callback
        return lambda: self._session_watches.pop(key, None) and None

    async def read(self, path: str) -> Node | None:
        return await self._requests.node(self._requests.read(path))

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        answers = [self._requests.read(path) for path in paths]
        try:
            return [await self._requests.node(answer) for answer in answers]
        finally:
            # Those behind a failed one fail too, and nobody asks them why.
            for answer in answers:
                answer.cancel()
                _forget(answer)

    async def children(self, path: str) -> list[str]:
        names = await self._requests.children(path)
        return sorted(name for name in names if name != _RESERVED or path != "/" or self._root)

    async def sync(self) -> None:
        await self._requests.sync()

    async def commit(self, changes: Sequence[Change]) -> list[int]:
        check_commit(changes)
        is_done = not changes
        while not is_done:
            missing = self._missing_root
            try:
                await self._requests.transact(missing, changes)
            except AlreadyMadeError as error:
                # By somebody else, meanwhile. Each time at least one is missing less.
                self._missing_root = missing[error.place + 1 :]
            else:
                self._missing_root = []
                is_done = True
        return [_version_after(change) for change in changes]

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        return self._watches.add(prefix, callback)

    def _arm(self, prefix: str) -> None:
        self._requests.send_watch(prefix).add_done_callback(self._armed)

    def _armed(self, answer: asyncio.Future[Any]) -> None:
        # After a lost connection the next one arms it.
        if not answer.cancelled() and (reason := final_reason(answer.exception())) is not None:
            self._failure = f"ZooKeeper at {self._target} refuses to be watched: {reason}. Then restart"

    def _disarm(self, prefix: str) -> None:
        # If it fails, events come that nobody gets, nothing else.
        self._requests.send_unwatch(prefix).add_done_callback(_forget)

    def _changed(self, change: StateChange) -> None:
        self._state, self._session_id = change.state, change.session_id
        for callback in self._session_watches.values():
            asyncio.get_running_loop().call_soon(callback, change.state)
        if change.state is SessionState.CONNECTED:
            # A new session knows nothing of what the one before it has seen, and this server may be behind.
            self._requests.send_sync().add_done_callback(_forget)
            for prefix in self._watches.prefixes:
                self._arm(prefix)
            self._watches.look_again()

    def _seen(self, full_path: str) -> None:
        self._watches.notify(full_path.removeprefix(self._root) or "/")

    def _unreachable(self) -> PenstockError:
        return PenstockError(
            Problem.STORE_UNAVAILABLE,
            f"no ZooKeeper server of {self._target} answered within {self._timeout_ms} ms "
            f"({self._connection.trouble or 'no attempt has ended yet'}): "
            "check the address, and that a quorum of them runs",
        )


def _version_after(change: Change) -> int:
    match change:
        case Create():
            return 0
        case Replace(_, _, version):
            return version + 1
        case _:
            return change.version


def _forget(answer: asyncio.Future[Any]) -> None:
    """Whatever became of it."""
    if answer.done() and not answer.cancelled():
        answer.exception()
