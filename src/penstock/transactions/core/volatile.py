"""What the transactions' machine knows and may forget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsedOn:
    """The newest connection on which the producer of this id, in version 1, began or extended one; 0: none."""

    transactional_id: str
    connection: int


@dataclass(frozen=True, slots=True)
class ExpiryPaused:
    """What the running expiry round has yet to look at, and when it goes on; nothing: when the next one begins."""

    transactional_ids: tuple[str, ...]
    queries: tuple[str, ...]
    next_ms: int


Note = UsedOn | ExpiryPaused


class Volatile:
    """Safe to lose, all of it, at any moment:

    - on which connection an id was last used: the next machine takes it as used when the machine itself began, later
      than every connection of which this one knew. A client that still has one of those is hung up on, and comes back
      on a new one; a request that was left behind on such a connection is nobody's;
    - how far an expiry round has come: the next one starts from the beginning.
    """

    def __init__(self) -> None:
        self.used_on: dict[str, int] = {}
        self.expiry_queue: tuple[str, ...] = ()
        self.expiry_queries: tuple[str, ...] = ()
        # 0: at once, which is right after a replay.
        self.expiry_ms = 0

    def remember(self, note: Note) -> None:
        match note:
            case UsedOn(transactional_id, connection):
                self.used_on[transactional_id] = connection
            case ExpiryPaused(transactional_ids, queries, next_ms):
                self.expiry_queue, self.expiry_queries, self.expiry_ms = transactional_ids, queries, next_ms
