"""What any store can hold: what one of them refuses, all do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.coordination.interface import (
    CHANGE_OVERHEAD_BYTES,
    MAX_COMMIT_BYTES,
    MAX_NODE_BYTES,
    Change,
    Create,
    Replace,
)
from penstock.errors import PenstockError, Problem


def check_commit(changes: Sequence[Change]) -> None:
    """Raises PenstockError(INVALID_REQUEST)."""
    total = 0
    for change in changes:
        check_path(change.path)
        data = change.data if isinstance(change, Create | Replace) else b""
        if len(data) > MAX_NODE_BYTES:
            text = f"{change.path} would hold {len(data)} bytes; the limit is {MAX_NODE_BYTES}"
            raise PenstockError(Problem.INVALID_REQUEST, text)
        total += CHANGE_OVERHEAD_BYTES + len(change.path.encode()) + len(data)
    if total > MAX_COMMIT_BYTES:
        text = f"{len(changes)} changes at once would take {total} bytes; the limit is {MAX_COMMIT_BYTES}"
        raise PenstockError(Problem.INVALID_REQUEST, text)


def check_readable(path: str) -> None:
    """Raises PenstockError(INVALID_REQUEST). The root can be read and watched, not changed."""
    if path != "/":
        check_path(path)


def check_path(path: str) -> None:
    """ZooKeeper's rules for the path of a node that can be changed. Raises PenstockError(INVALID_REQUEST)."""
    start, *names = path.split("/")
    if start or not names or any(name in ("", ".", "..") for name in names) or not _is_plain(path):
        raise PenstockError(Problem.INVALID_REQUEST, f"{path!r} is not a path of the coordination store")


def _is_plain(text: Iterable[str]) -> bool:
    """Java sees what lies beyond the basic plane as surrogates, which ZooKeeper refuses with all around them."""
    return all(letter.isprintable() and (letter < "\ud800" or "\uf900" <= letter < "\ufff0") for letter in text)
