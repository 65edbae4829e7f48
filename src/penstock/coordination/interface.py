"""What Penstock asks of a coordination store: the embedded one and ZooKeeper both give it.

A store is a tree of nodes below "/". A node's version is 0 when it is created and grows by one with each
replacement; a node that was removed and created again starts at 0. A parent must exist before its children and
cannot be removed while it has any: these are ZooKeeper's rules, so the embedded store keeps them too.

Whoever uses a store has a session with it. An ephemeral node lasts as long as the session that created it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.units import KIB, MIB

# ZooKeeper's limit for a packet is one byte less than a MiB, and a commit travels in one: what is below this fits,
# with what surrounds it. The embedded store keeps both limits too, so that nobody relies on more.
MAX_COMMIT_BYTES = MIB - 4 * KIB
# What a change counts besides its path and data; a chroot of up to 128 bytes is in it.
CHANGE_OVERHEAD_BYTES = 256
MAX_NODE_BYTES = MAX_COMMIT_BYTES - 2 * KIB

Unwatch = Callable[[], None]


class Node(NamedTuple):
    """`created` is never given to a node of the same path again, and grows: those of one commit share it."""

    data: bytes
    version: int
    created: int = 0
    # The session that an ephemeral node goes with; None: it stays.
    owner: int | None = None


class Create(NamedTuple):
    """The path must be free, its parent must exist and not be ephemeral."""

    path: str
    data: bytes
    # Removed by the store when this session ends.
    ephemeral: bool = False


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


class SessionState(Enum):
    """CONNECTED: a session, the old one or a new one. SUSPENDED: not connected, the session may live or be over.

    LOST: the session is over, its ephemeral nodes are gone or about to go; a CONNECTED with a new session follows.
    A LOST may come long after the fact (a paused process), so nothing may depend on hearing of it in time.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Store(Protocol):
    """Reads and commits raise PenstockError: STORE_UNAVAILABLE while the store cannot be reached (nothing is tried
    again behind the caller's back), INVALID_REQUEST for what can be no path, STORAGE_FAILED when something must be
    put right first. Calls of one event loop are carried out in the order in which they were made.
    """

    async def read(self, path: str) -> Node | None:
        """What is committed for good; nothing that a power cut could still take back.

        What others committed a moment ago may not show yet: `sync` first where that matters. What was answered to
        anybody before a CONNECTED does show.
        """

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """`read` of each, sent together."""

    async def children(self, path: str) -> list[str]:
        """Names directly below `path`, sorted; empty if there is no such node."""

    async def sync(self) -> None:
        """Reads that follow see all that was answered to anybody before this call."""

    async def commit(self, changes: Sequence[Change]) -> list[int]:
        """All of the changes or none, in order; the version of each node after it (of a removed one: its last).

        Raises PenstockError: STORE_CONFLICT when one of the changes does not fit what is there, INVALID_REQUEST for
        a path or data that no store can hold, STORAGE_FAILED when it could not be written, STORE_UNAVAILABLE when
        the connection was lost before the answer. After those two, and after a cancelled call, the changes may or
        may not be there: `sync` and look. What it answered is on disk.
        """

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        """Call back, on the event loop, with the path of each node at or below `prefix` that changed.

        The new state can be read when the callback runs, and what is changed after a read that was begun after this
        call is told. A callback may come without a change, and several changes may share one: it says "look again",
        nothing more. With `prefix` itself it comes after each new connection, because anything may have changed.
        """

    @property
    def session_state(self) -> SessionState:
        """As the callbacks of `watch_session` have told it."""

    @property
    def session_id(self) -> int | None:
        """The owner of ephemeral nodes that are created now; kept while SUSPENDED, None when LOST."""

    def watch_session(self, callback: Callable[[SessionState], None]) -> Unwatch:
        """Call back, on the event loop, with each new state, in order and before what comes after it.

        A commit made in one session is never carried out in the next.
        """

    @property
    def failure(self) -> str | None:
        """Why it works no more until the process is started again, and what to do."""

    async def close(self) -> None:
        """Ends the session and lets go of everything."""
