"""The store of a cluster: ZooKeeper."""

from __future__ import annotations

import asyncio
from collections import namedtuple
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self, assert_never

from kazoo import exceptions as kazoo
from kazoo.protocol import serialization as protocol
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.core.limits import check_commit
from penstock.coordination.interface import (
    Change,
    Check,
    Create,
    Node,
    Remove,
    Replace,
    SessionState,
    Unwatch,
)
from penstock.coordination.zookeeper_connection import StateChange, ZooKeeperConnection
from penstock.coordination.zookeeper_tls import check_tls
from penstock.errors import PenstockError, Problem

# ZooKeeper's own, at its root.
_RESERVED = "zookeeper"
_EPHEMERAL = 1
_RECURSIVE = 1
_ANY_WATCH = 3

_CONFLICTS = {
    kazoo.BadVersionError: "{path} is not at version {version}",
    kazoo.NoNodeError: "{path} does not exist",
    kazoo.NodeExistsError: "{path} exists already",
    kazoo.NotEmptyError: "{path} has nodes below it: remove those first",
    kazoo.NoChildrenForEphemeralsError: "{path} cannot be created: its parent is ephemeral",
}
# It was not done and will not be: somebody has to change something first.
_REFUSALS = {
    kazoo.NoAuthError: "this broker may not do that: check zookeeper.auth and the ACLs of the nodes",
    kazoo.InvalidACLError: "zookeeper.set.acl needs zookeeper.auth or a certificate that ZooKeeper knows",
    kazoo.QuotaExceededError: "a quota of the chroot is used up",
    kazoo.UnimplementedError: "this version of it is too old: 3.6 or newer is needed",
}


class _AddWatch(namedtuple("_AddWatch", "path")):
    """ZooKeeper 3.6's persistent recursive watch, which kazoo does not have: it stays, and covers all below."""

    __slots__ = ()
    type = 106

    def serialize(self) -> bytes:
        return bytes(protocol.write_string(self.path) + protocol.int_struct.pack(_RECURSIVE))

    @classmethod
    def deserialize(cls, _: bytes, __: int) -> bool:
        return True


class _RemoveWatch(namedtuple("_RemoveWatch", "path")):
    __slots__ = ()
    type = 18

    def serialize(self) -> bytes:
        return bytes(protocol.write_string(self.path) + protocol.int_struct.pack(_ANY_WATCH))

    @classmethod
    def deserialize(cls, _: bytes, __: int) -> bool:
        return True


class ZooKeeperStore:
    """Implements `Store` for one event loop. A chroot that does not exist is made by the first commit."""

    def __init__(self, settings: CoordinationSettings) -> None:
        self._target = settings.coordination
        self._root = settings.coordination.chroot
        self._timeout_ms = settings.connection_timeout_ms
        self._acl = CREATOR_ALL_ACL if settings.zookeeper_set_acl else OPEN_ACL_UNSAFE
        # Full paths of those nodes above and at the root that are not there.
        self._missing_root: list[str] = []
        self._state = SessionState.LOST
        self._session_id: int | None = None
        self._failure: str | None = None
        self._watches: dict[object, tuple[str, Callable[[str], None]]] = {}
        self._session_watches: dict[object, Callable[[SessionState], None]] = {}
        self._connection = ZooKeeperConnection(settings, self._changed, self._seen)

    @classmethod
    async def open(cls, settings: CoordinationSettings) -> Self:
        """Raises PenstockError: STORE_UNAVAILABLE when no server answers in time, INVALID_CONFIG. Writes nothing."""
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
        # Only to see that the server is new enough.
        await self._ask(_AddWatch(self._full("/")), "a watch")
        await self._ask(_RemoveWatch(self._full("/")), "the end of a watch")
        await self._look_for_root()

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
        return await self._node(self._connection.send(protocol.GetData(self._full(path), None)))

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        answers = [self._connection.send(protocol.GetData(self._full(path), None)) for path in paths]
        try:
            return [await self._node(answer) for answer in answers]
        finally:
            for answer in answers:
                # Those behind a failed one fail too, and nobody asks them why.
                answer.cancel()

    async def children(self, path: str) -> list[str]:
        try:
            names = await self._ask(protocol.GetChildren(self._full(path), None), f"listing {path}")
        except kazoo.NoNodeError:
            return []
        return sorted(name for name in names if name != _RESERVED or path != "/" or self._root)

    async def sync(self) -> None:
        await self._ask(protocol.Sync(self._full("/")), "sync")

    async def commit(self, changes: Sequence[Change]) -> list[int]:
        check_commit(changes)
        for change in changes:
            # To ZooKeeper a version of -1 is any.
            if not isinstance(change, Create) and not 0 <= change.version < 2**31:
                raise _conflict(kazoo.BadVersionError, change)
        if changes:
            await self._commit(changes)
        return [_version_after(change) for change in changes]

    async def _commit(self, changes: Sequence[Change]) -> None:
        missing = list(self._missing_root)
        above = [protocol.Create(path, b"", self._acl, 0) for path in missing]
        transaction = protocol.Transaction([*above, *map(self._operation, changes)])
        results = await self._ask(transaction, "a commit")
        failed = next((at for at, result in enumerate(results) if _is_reason(result)), None)
        if failed is None:
            self._missing_root = []
        elif failed >= len(missing):
            raise self._refusal(results[failed], changes[failed - len(missing)])
        elif isinstance(results[failed], kazoo.NodeExistsError):
            # Somebody else made it meanwhile, so nothing was done. Each time at least one is missing less.
            self._missing_root = missing[failed + 1 :]
            await self._commit(changes)
        else:
            raise self._refusal(results[failed], None, f"to make {missing[failed]}")

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        key = object()
        is_first = not self._is_watched(prefix)
        self._watches[key] = (prefix, callback)
        if is_first:
            self._arm(prefix)
        return lambda: self._unwatch(key)

    def _unwatch(self, key: object) -> None:
        prefix, _ = self._watches.pop(key, ("", None))
        if prefix and not self._is_watched(prefix):
            # Without it events come that nobody gets, nothing else; and a lost connection ends it too.
            self._connection.send(_RemoveWatch(self._full(prefix))).add_done_callback(_forget)

    def _is_watched(self, prefix: str) -> bool:
        return any(prefix == watched for watched, _ in self._watches.values())

    def _arm(self, prefix: str) -> None:
        self._connection.send(_AddWatch(self._full(prefix))).add_done_callback(self._armed)

    def _armed(self, answer: asyncio.Future[Any]) -> None:
        error = None if answer.cancelled() else answer.exception()
        # After a lost connection the next one arms it.
        if type(error) in _REFUSALS:
            self._failure = f"ZooKeeper refuses to be watched: {_REFUSALS[type(error)]}. Then restart"

    def _changed(self, change: StateChange) -> None:
        self._state, self._session_id = change.state, change.session_id
        loop = asyncio.get_running_loop()
        for callback in self._session_watches.values():
            loop.call_soon(callback, change.state)
        if change.state is SessionState.CONNECTED:
            for prefix in {prefix: None for prefix, _ in self._watches.values()}:
                self._arm(prefix)
            for prefix, look_again in self._watches.values():
                loop.call_soon(look_again, prefix)

    def _seen(self, full_path: str) -> None:
        path = full_path.removeprefix(self._root) or "/"
        for prefix, callback in self._watches.values():
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                asyncio.get_running_loop().call_soon(callback, path)

    async def _look_for_root(self) -> None:
        names = self._root.split("/")[1:] if self._root else []
        levels = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
        found = [await self._ask(protocol.Exists(level, None), level) is not None for level in levels]
        self._missing_root = [level for level, is_there in zip(levels, found, strict=True) if not is_there]

    def _full(self, path: str) -> str:
        return self._root + path if path != "/" else self._root or "/"

    def _operation(self, change: Change) -> Any:
        path = self._full(change.path)
        match change:
            case Create(_, data, ephemeral):
                return protocol.Create(path, data, self._acl, _EPHEMERAL if ephemeral else 0)
            case Replace(_, data, version):
                return protocol.SetData(path, data, version)
            case Remove(_, version):
                return protocol.Delete(path, version)
            case Check(_, version):
                return protocol.CheckVersion(path, version)
            case _:
                assert_never(change)

    async def _node(self, answer: asyncio.Future[Any]) -> Node | None:
        try:
            data, stat = await self._answered(answer, "reading")
        except kazoo.NoNodeError:
            return None
        return Node(data or b"", stat.version, stat.czxid, stat.ephemeralOwner or None)

    async def _ask(self, request: Any, what: str) -> Any:
        return await self._answered(self._connection.send(request), what)

    async def _answered(self, answer: asyncio.Future[Any], what: str) -> Any:
        """What the caller knows how to take comes as kazoo's error, anything else as PenstockError."""
        try:
            return await answer
        except kazoo.NoNodeError:
            raise
        except kazoo.KazooException as error:
            raise self._refusal(error, None, what) from error

    def _refusal(self, error: kazoo.KazooException, change: Change | None, what: str = "a commit") -> PenstockError:
        if change is not None and type(error) in _CONFLICTS:
            return _conflict(type(error), change)
        where = change.path if change is not None else what
        if (reason := _REFUSALS.get(type(error))) is not None:
            return PenstockError(Problem.STORAGE_FAILED, f"ZooKeeper at {self._target} refuses {where}: {reason}")
        reason = f"the answer to {what} did not come: {type(error).__name__} {error}".rstrip()
        return PenstockError(Problem.STORE_UNAVAILABLE, f"ZooKeeper at {self._target}: {reason}")

    def _unreachable(self) -> PenstockError:
        return PenstockError(
            Problem.STORE_UNAVAILABLE,
            f"no ZooKeeper server of {self._target} answered within {self._timeout_ms} ms "
            f"({self._connection.trouble or 'no attempt has ended yet'}): "
            "check the address, and that a quorum of them runs",
        )


def _is_reason(result: Any) -> bool:
    """Of a failed transaction each operation gets an error, but only one is to blame."""
    return isinstance(result, Exception) and not isinstance(result, kazoo.RolledBackError | kazoo.RuntimeInconsistency)


def _conflict(kind: type[Exception], change: Change) -> PenstockError:
    path = change.path
    if kind is kazoo.NoNodeError and isinstance(change, Create):
        return PenstockError(Problem.STORE_CONFLICT, f"{path} cannot be created: its parent does not exist")
    text = _CONFLICTS[kind].format(path=path, version=getattr(change, "version", None))
    return PenstockError(Problem.STORE_CONFLICT, text)


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
    if not answer.cancelled():
        answer.exception()
