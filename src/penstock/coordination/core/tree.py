"""The tree of nodes, and what a sequence of commits would do to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, assert_never

from penstock.coordination.interface import MAX_NODE_BYTES, Change, Check, Create, Node, Remove, Replace
from penstock.errors import PenstockError, Problem

ROOT = "/"


class Write(NamedTuple):
    """One node as a commit leaves it; `data` None: removed."""

    path: str
    data: bytes | None
    version: int


class _Readable(Protocol):
    def read(self, path: str) -> Node | None: ...

    def child_names(self, path: str) -> set[str]: ...


class Tree:
    """Committed nodes only. The root is always there and holds no data."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {ROOT: Node(b"", 0)}
        self._children: dict[str, set[str]] = {}

    def read(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def child_names(self, path: str) -> set[str]:
        return set(self._children.get(path, ()))

    def writes(self) -> list[Write]:
        """Everything, such that applying it to an empty tree gives this one."""
        return [Write(path, *node) for path, node in sorted(self._nodes.items()) if path != ROOT]

    def apply(self, writes: Iterable[Write]) -> None:
        for path, data, version in writes:
            parent, name = _split(path)
            if data is None:
                self._nodes.pop(path, None)
                self._children.get(parent, set()).discard(name)
                self._children.pop(path, None)
            else:
                self._nodes[path] = Node(data, version)
                self._children.setdefault(parent, set()).add(name)


class Draft:
    """Commits on top of a tree that is not changed: readers must not see what is not on disk yet."""

    def __init__(self, base: _Readable) -> None:
        self._base = base
        self._nodes: dict[str, Node | None] = {}
        self._written: list[Write] = []

    @property
    def writes(self) -> list[Write]:
        return self._written

    def read(self, path: str) -> Node | None:
        return self._nodes[path] if path in self._nodes else self._base.read(path)

    def child_names(self, path: str) -> set[str]:
        names = self._base.child_names(path)
        for changed, node in self._nodes.items():
            parent, name = _split(changed)
            if parent == path:
                (names.discard if node is None else names.add)(name)
        return names

    def commit(self, changes: Sequence[Change]) -> list[int]:
        """The versions after it; raises PenstockError and leaves the draft as it was."""
        attempt = Draft(self)
        versions = [attempt._change(change) for change in changes]
        self._nodes.update(attempt._nodes)
        self._written.extend(attempt._written)
        return versions

    def _change(self, change: Change) -> int:
        match change:
            case Create(path, data):
                self._check_free(path)
                return self._put(path, data, 0)
            case Replace(path, data, version):
                self._check_version(path, version)
                return self._put(path, data, version + 1)
            case Remove(path, version):
                self._check_version(path, version)
                if self.child_names(path):
                    raise _conflict(f"{path} has nodes below it: remove those first")
                self._nodes[path] = None
                self._written.append(Write(path, None, version))
                return version
            case Check(path, version):
                self._check_version(path, version)
                return version
            case _:
                assert_never(change)

    def _put(self, path: str, data: bytes, version: int) -> int:
        if len(data) > MAX_NODE_BYTES:
            raise PenstockError(
                Problem.INVALID_REQUEST, f"{path} would hold {len(data)} bytes; the limit is {MAX_NODE_BYTES}"
            )
        self._nodes[path] = Node(data, version)
        self._written.append(Write(path, data, version))
        return version

    def _check_free(self, path: str) -> None:
        check_path(path)
        if self.read(path) is not None:
            raise _conflict(f"{path} exists already")
        parent, _ = _split(path)
        if self.read(parent) is None:
            raise _conflict(f"{path} cannot be created: {parent} does not exist")

    def _check_version(self, path: str, version: int) -> None:
        check_path(path)
        node = self.read(path)
        if node is None:
            raise _conflict(f"{path} does not exist")
        if node.version != version:
            raise _conflict(f"{path} is at version {node.version}, not {version}")


def check_path(path: str) -> None:
    """ZooKeeper's rules for a path; what it refuses, no store may hold. The root is nobody's to change."""
    start, *names = path.split("/")
    if start or not names or not path.isprintable() or any(name in ("", ".", "..") for name in names):
        raise PenstockError(Problem.INVALID_REQUEST, f"{path!r} is not a path of the coordination store")


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def _conflict(text: str) -> PenstockError:
    return PenstockError(Problem.STORE_CONFLICT, text)
