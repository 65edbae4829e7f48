"""What a store asks of ZooKeeper, in its own words, and its answers and refusals in ours."""

from __future__ import annotations

import asyncio
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, assert_never

from kazoo import exceptions as kazoo
from kazoo.protocol import serialization as protocol
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.core.limits import check_readable
from penstock.coordination.interface import Change, Check, Create, Node, Remove, Replace
from penstock.coordination.zookeeper_connection import ZooKeeperConnection
from penstock.errors import PenstockError, Problem

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


class AlreadyMadeError(Exception):
    """Of those nodes above the root that were to be made, the one at this place is there: nothing was done."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


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


class ZooKeeperRequests:
    """Paths are the store's, below the chroot, unless called full. Whatever fails raises PenstockError.

    Those that return a future have sent the request when they return.
    """

    def __init__(self, settings: CoordinationSettings, connection: ZooKeeperConnection) -> None:
        self._target = settings.coordination
        self._root = settings.coordination.chroot
        self._acl = CREATOR_ALL_ACL if settings.zookeeper_set_acl else OPEN_ACL_UNSAFE
        self._connection = connection

    def read(self, path: str) -> asyncio.Future[Any]:
        """For `node`."""
        return self._connection.send(protocol.GetData(self._full(path), None))

    async def node(self, answer: asyncio.Future[Any]) -> Node | None:
        found = await self._found(answer)
        if found is None:
            return None
        data, stat = found
        return Node(data or b"", stat.version, stat.czxid, stat.ephemeralOwner or None)

    async def children(self, path: str) -> list[str]:
        found = await self._found(self._connection.send(protocol.GetChildren(self._full(path), None)))
        return list(found or ())

    async def exists(self, full_path: str) -> bool:
        return await self._ask(protocol.Exists(full_path, None), full_path) is not None

    def send_sync(self) -> asyncio.Future[Any]:
        return self._connection.send(protocol.Sync(self._full("/")))

    async def sync(self) -> None:
        await self._ask(protocol.Sync(self._full("/")), "a sync")

    def send_watch(self, prefix: str) -> asyncio.Future[Any]:
        return self._connection.send(_AddWatch(self._full(prefix)))

    def send_unwatch(self, prefix: str) -> asyncio.Future[Any]:
        return self._connection.send(_RemoveWatch(self._full(prefix)))

    async def try_watch(self) -> None:
        """Only to see that the server is new enough."""
        await self._ask(_AddWatch(self._full("/")), "a watch")
        await self._ask(_RemoveWatch(self._full("/")), "the end of a watch")

    async def transact(self, above: Sequence[str], changes: Sequence[Change]) -> None:
        """`above`: full paths of nodes to be made first. Raises AlreadyMadeError if one of those is there."""
        for change in changes:
            # To ZooKeeper a version of -1 is any.
            if not isinstance(change, Create) and not 0 <= change.version < 2**31:
                raise _conflict(kazoo.BadVersionError, change)
        made = [protocol.Create(path, b"", self._acl, 0) for path in above]
        results = await self._ask(protocol.Transaction([*made, *map(self._operation, changes)]), "a commit")
        failed = next((place for place, result in enumerate(results) if _is_reason(result)), None)
        if failed is None:
            return
        error = results[failed]
        if failed < len(above):
            if isinstance(error, kazoo.NodeExistsError):
                raise AlreadyMadeError(failed)
            raise self._refusal(error, f"to make {above[failed]}")
        change = changes[failed - len(above)]
        if type(error) in _CONFLICTS:
            raise _conflict(type(error), change)
        raise self._refusal(error, f"a commit that changes {change.path}")

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

    def _full(self, path: str) -> str:
        check_readable(path)
        return self._root + path if path != "/" else self._root or "/"

    async def _found(self, answer: asyncio.Future[Any]) -> Any:
        """None if there is no such node."""
        try:
            return await answer
        except kazoo.NoNodeError:
            return None
        except kazoo.KazooException as error:
            raise self._refusal(error, "a read") from error

    async def _ask(self, request: Any, what: str) -> Any:
        try:
            return await self._connection.send(request)
        except kazoo.KazooException as error:
            raise self._refusal(error, what) from error

    def _refusal(self, error: kazoo.KazooException, what: str) -> PenstockError:
        if (reason := final_reason(error)) is not None:
            return PenstockError(Problem.STORAGE_FAILED, f"ZooKeeper at {self._target} refuses {what}: {reason}")
        reason = f"the answer to {what} did not come: {type(error).__name__} {error}".rstrip()
        return PenstockError(Problem.STORE_UNAVAILABLE, f"ZooKeeper at {self._target}: {reason}")


def final_reason(error: BaseException | None) -> str | None:
    """Why trying again does not help; None if it may."""
    return _REFUSALS.get(type(error))


def _is_reason(result: Any) -> bool:
    """Of a failed transaction each operation gets an error, but only one is to blame."""
    return isinstance(result, Exception) and not isinstance(result, kazoo.RolledBackError | kazoo.RuntimeInconsistency)


def _conflict(kind: type[Exception], change: Change) -> PenstockError:
    if kind is kazoo.NoNodeError and isinstance(change, Create):
        return PenstockError(Problem.STORE_CONFLICT, f"{change.path} cannot be created: its parent does not exist")
    text = _CONFLICTS[kind].format(path=change.path, version=getattr(change, "version", None))
    return PenstockError(Problem.STORE_CONFLICT, text)
