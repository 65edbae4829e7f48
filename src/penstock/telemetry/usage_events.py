"""Usage as events: what one node has counted in one interval, as records of `__usage` (docs/usage.md).

An event is known by (node, broker epoch, sequence). Within a life of a node the sequences have no hole and the
intervals follow on each other; the first event says that it is the first, and one that nothing follows says that too.
So what is missing shows, and what is there twice counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from penstock.telemetry.usage import Series
from penstock.units import KIB

FORMAT = 1
# Of the rows in one event: far below max.message.bytes of the topic, and large enough that 10,000 series are a few.
EVENT_BYTES = 256 * KIB
# At most: of a character in JSON, and of a row without tenant and topic.
_ESCAPED_BYTES = 6
_REST_BYTES = 200


class UsageRow(msgspec.Struct, frozen=True):
    tenant: str
    topic: str
    api: str
    messages: int
    bytes: int
    requests: int


class UsageEvent(msgspec.Struct, frozen=True):
    """The value of a record, as JSON."""

    format: int
    node: int
    broker_epoch: int
    sequence: int
    # The interval is [from_ms, to_ms).
    from_ms: int
    to_ms: int
    # Of this life.
    first: bool
    last: bool
    # With `first`: the life before ended without an event that says it was the last, so the end of it is missing.
    gap_before: bool
    usage: list[UsageRow]


class Event(NamedTuple):
    """As it is appended, however often that has to be tried."""

    key: bytes
    value: bytes
    timestamp_ms: int


class UsageEvents:
    """Of one life of a node."""

    def __init__(self, node_id: int, broker_epoch: int, now_ms: int, *, gap_before: bool) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._from_ms = now_ms
        self._gap_before = gap_before
        self._sequence = 0

    @property
    def has_begun(self) -> bool:
        """There was an event, so there has to be a last one."""
        return self._sequence > 0

    def cut(self, counted: Iterable[Series], now_ms: int, *, last: bool = False) -> list[Event]:
        """The interval up to now, in as many events as it needs, and one if there is nothing to say."""
        chunks = list(_chunks(counted)) or [[]]
        from_ms, to_ms = self._from_ms, max(self._from_ms, now_ms)
        self._from_ms = to_ms
        events = []
        for place, rows in enumerate(chunks, 1):
            is_first = self._sequence == 0
            event = UsageEvent(
                FORMAT,
                self._node_id,
                self._broker_epoch,
                self._sequence,
                from_ms,
                to_ms,
                first=is_first,
                last=last and place == len(chunks),
                gap_before=is_first and self._gap_before,
                usage=rows,
            )
            key = msgspec.json.encode((self._node_id, self._broker_epoch, self._sequence))
            events.append(Event(key, msgspec.json.encode(event), to_ms))
            self._sequence += 1
        return events


def _chunks(counted: Iterable[Series]) -> Iterator[list[UsageRow]]:
    rows: list[UsageRow] = []
    size = 0
    for each in counted:
        # The most that it can take, because to encode each on its own would hold up the event loop for much longer.
        most = _ESCAPED_BYTES * len(each.tenant) + len(each.topic) + _REST_BYTES
        if size + most > EVENT_BYTES:
            yield rows
            rows, size = [], 0
        rows.append(UsageRow(each.tenant, each.topic, each.api, each.messages, each.size_bytes, each.requests))
        size += most
    if rows:
        yield rows
