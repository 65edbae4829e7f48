"""Why a request has no answer. What is known of a broker's death comes from here, so the kinds are kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class How(Enum):
    # Nobody listens at the peer's address; its machine itself said so.
    REFUSED = auto()
    # No way to the peer: its name, its network. Says nothing about the peer itself.
    UNREACHABLE = auto()
    # The peer's end broke off, as when its process died with bytes unread.
    RESET = auto()
    # The peer's end was closed: on purpose, or by the kernel when its process died with all bytes read.
    CLOSED = auto()
    # Silence. Never evidence of anything.
    TIMED_OUT = auto()
    # Bytes that are no answer to what was asked.
    MALFORMED = auto()
    # Too much waits for this peer already.
    BUSY = auto()
    # No address is known for the peer.
    UNKNOWN_PEER = auto()
    # We ended it ourselves: stopping, or the peer has moved.
    STOPPED = auto()


@dataclass(frozen=True, slots=True)
class Unanswered:
    how: How
    text: str
    # False: the peer has certainly not seen the request, so sending it again repeats nothing.
    sent: bool = False
