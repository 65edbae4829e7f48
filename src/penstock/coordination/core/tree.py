"""The tree of nodes, and what a sequence of commits would do to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, assert_never

from penstock.coordination.core.limits import check_commit
from penstock.coordination.interface import Change, Check, Create, Node, Remove, Replace
from penstock.errors import PenstockError, Problem

ROOT = "/"


class Write(NamedTuple):
    """One node as a commit leaves it; `data` None: removed."""

    path: str
    data: bytes | None
    version: int
    # Also of a removed node, so that replaying finds the highest that was ever given. Stores of earlier releases
    # had neither.
    created: int = 0
    owner: int | None = None


class _Readable(Protocol):
    @property
    def last_created(self) -> int: ...

    def read(self, path: str) -> Node | None: ...

    def child_names(self, path: str) -> set[str]: ...


class Tree:
    """Committed nodes only. The root is always there and holds no data.

    `last_created` is the highest creation id that any node had, also one that is gone: none is given twice.
    """

    def __init__(self, last_created: int = 0) -> None:
        self.last_created = last_created
        self._nodes: dict[str, Node] = {ROOT: Node(b"", 0)}
        self._children: dict[str, set[str]] = {}

    def read(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def child_names(self, path: str) -> set[str]:
        return set(self._children.get(path, ()))

    def writes(self) -> list[Write]:
        """Everything, such that applying it to an empty tree gives this one."""
        return [Write(path, *node) for path, node in sorted(self._nodes.items()) if path != ROOT]

    def ephemeral_paths(self) -> list[str]:
        return [path for path, node in self._nodes.items() if node.owner is not None]

    def apply(self, writes: Iterable[Write]) -> None:
        for path, data, version, created, owner in writes:
            self.last_created = max(self.last_created, created)
            parent, name = _split(path)
            if data is None:
                self._nodes.pop(path, None)
                self._children.get(parent, set()).discard(name)
                self._children.pop(path, None)
            else:
                self._nodes[path] = Node(data, version, created, owner)
                self._children.setdefault(parent, set()).add(name)


class Draft:
    """Commits on top of a tree that is not changed: readers must not see what is not on disk yet.

    They are all of one session, which owns the ephemeral nodes that they create.
    """

    def __init__(self, base: _Readable, session_id: int) -> None:
        self.last_created = base.last_created
        self._base = base
        self._session_id = session_id
        self._nodes: dict[str, Node | None] = {}
        # By parent, the names of those nodes: whoever removes one asks for what is below it.
        self._names: dict[str, dict[str, bool]] = {}
        self._written: list[Write] = []

    @property
    def writes(self) -> list[Write]:
        return self._written

    def read(self, path: str) -> Node | None:
        return self._nodes[path] if path in self._nodes else self._base.read(path)

    def child_names(self, path: str) -> set[str]:
        names = self._base.child_names(path)
        for name, is_there in self._names.get(path, {}).items():
            (names.add if is_there else names.discard)(name)
        return names

    def commit(self, changes: Sequence[Change]) -> list[int]:
        """The versions after it; raises PenstockError and leaves the draft as it was."""
        check_commit(changes)
        attempt = Draft(self, self._session_id)
        attempt.last_created += 1
        versions = [attempt._change(change) for change in changes]
        self.last_created = attempt.last_created
        for path, node in attempt._nodes.items():
            self._set(path, node)
        self._written.extend(attempt._written)
        return versions

    def _change(self, change: Change) -> int:
        match change:
            case Create(path, data, ephemeral):
                self._check_free(path)
                return self._put(path, Node(data, 0, self.last_created, self._session_id if ephemeral else None))
            case Replace(path, data, version):
                node = self._check_version(path, version)
                return self._put(path, node._replace(data=data, version=version + 1))
            case Remove(path, version):
                node = self._check_version(path, version)
                if self.child_names(path):
                    raise _conflict(f"{path} has nodes below it: remove those first")
                self._set(path, None)
                self._written.append(Write(path, None, version, node.created, node.owner))
                return version
            case Check(path, version):
                self._check_version(path, version)
                return version
            case _:
                assert_never(change)

    def _put(self, path: str, node: Node) -> int:
        self._set(path, node)
        self._written.append(Write(path, *node))
        return node.version

    def _set(self, path: str, node: Node | None) -> None:
        parent, name = _split(path)
        self._nodes[path] = node
        self._names.setdefault(parent, {})[name] = node is not None

    def _check_free(self, path: str) -> None:
        if self.read(path) is not None:
            raise _conflict(f"{path} exists already")
        name, _ = _split(path)
        parent = self.read(name)
        if parent is None:
            raise _conflict(f"{path} cannot be created: {name} does not exist")
        if parent.owner is not None:
            raise _conflict(f"{path} cannot be created: {name} is ephemeral")

    def _check_version(self, path: str, version: int) -> Node:
        node = self.read(path)
        if node is None:
            raise _conflict(f"{path} does not exist")
        if node.version != version:
            raise _conflict(f"{path} is at version {node.version}, not {version}")
        return node


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def _conflict(text: str) -> PenstockError:
    return PenstockError(Problem.STORE_CONFLICT, text)
