"""What a handler is: the mechanism's side of the shape that every file in `apis` copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from kio.static.primitive import i32Timedelta

from penstock.later import Later
from penstock.wire.stored_batches import StoredBatches

# Responses have the field; dispatch fills it in.
NO_THROTTLE = i32Timedelta.parse(timedelta(0))

Part = bytes | bytearray | memoryview | StoredBatches
Buffers = Sequence[Part]


@dataclass(frozen=True)
class Api:
    """Declares an API: dispatch, ApiVersions and the reference page come from it."""

    key: int
    versions: tuple[int, int]
    # Later requests of the same connection may start while this one waits. Kafka serves a connection's requests one
    # by one; only Produce gains from more, since all that wait share one fdatasync.
    pipelined: bool = False
    # Decided by the controller alone: dispatch sends it there.
    on_controller: bool = False
    # Between brokers: not told to clients, and not their usage.
    private: bool = False
    # The handler counts usage itself, because only it knows the topics; for all others dispatch does.
    counts_topics: bool = False


next_number = itertools.count(1).__next__
"""One order for the connections of this process and for what else has to be placed among them."""


@dataclass(slots=True)
class Caller:
    """Who asks, as far as the connection knows. One per connection, so read it inside `start`."""

    host: str
    # The address at which the client reached us, for answers that name this broker.
    local_host: str
    local_port: int
    client_id: str = ""
    # Whose usage it is.
    tenant: str = ""
    # The broker that sent it on has counted it.
    is_forwarded: bool = False
    # Called when the client has gone, so that a handler may stop waiting on its behalf.
    when_gone: Callable[[], None] | None = None
    # Called when more has come from the client while it waits for an answer.
    when_more: Callable[[], None] | None = None
    # The last partition that a fetch without a session had records of.
    served_last: tuple[str | UUID, int] | None = None
    # Of the connection; no other ever has it, and whoever connects later has a higher one.
    number: int = field(default_factory=next_number)
    # Its connection sends records straight from their file.
    takes_files: bool = False


class Handler(Protocol):
    """`start` runs where the bytes arrive, so offsets are fixed in connection order. It answers, or returns a `Later`.

    Requests and responses are of the newest version; views into the frame are valid only inside `start`.
    """

    @property
    def api(self) -> Api: ...

    def start(self, request: Any, caller: Caller, /) -> Any | Later[Any]: ...


@runtime_checkable
class OwnCodec(Protocol):
    """A handler whose requests and responses are too large to pass through the generic codec."""

    def read(self, frame: memoryview, body_start: int, version: int, /) -> Any: ...

    def pack(self, response: Any, version: int, correlation_id: int, throttle_ms: int, /) -> Buffers: ...


class CloseConnection(Exception):
    """The only right answer is to hang up; the text is for the log."""


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
