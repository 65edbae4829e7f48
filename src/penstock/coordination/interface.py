"""What Penstock asks of a coordination store: the embedded one and ZooKeeper both give it.

A store is a tree of nodes below "/". A node's version is 0 when it is created and grows by one with each
replacement; a node that was removed and created again starts at 0. A parent must exist before its children and
cannot be removed while it has any: these are ZooKeeper's rules, so the embedded store keeps them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.units import MIB

# ZooKeeper's own limit for a packet; the embedded store keeps it so that a node fits either.
MAX_NODE_BYTES = MIB

Unwatch = Callable[[], None]


class Node(NamedTuple):
    data: bytes
    version: int


class Create(NamedTuple):
    """The path must be free, its parent must exist."""

    path: str
    data: bytes


class Replace(NamedTuple):
    """The node must be there, at this version."""

    path: str
    data: bytes
    version: int


class Remove(NamedTuple):
    """The node must be there, at this version, without children."""

    path: str
    version: int


class Check(NamedTuple):
    """Changes nothing; the node must be there, at this version."""

    path: str
    version: int


Change = Create | Replace | Remove | Check


class Store(Protocol):
    async def read(self, path: str) -> Node | None:
        """What is committed for good; nothing that a power cut could still take back."""

    async def children(self, path: str) -> list[str]:
        """Names directly below `path`, sorted; empty if there is no such node."""

    async def commit(self, changes: Sequence[Change]) -> list[int]:
        """All of the changes or none, in order; the version of each node after it (of a removed one: its last).

        Raises PenstockError: STORE_CONFLICT when one of the changes does not fit what is there, INVALID_REQUEST for
        a path or data that no store can hold, STORAGE_FAILED when it could not be written (after that error, and
        after a cancelled call, the changes may or may not be there). What it answered is on disk.
        """

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        """Call back, on the event loop, with the path of each node at or below `prefix` that changed.

        The new state can be read when the callback runs. A callback may come without a change, and several changes
        may share one: it says "look again", nothing more.
        """
