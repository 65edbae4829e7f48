"""What classic consumers put into the bytes of JoinGroup and SyncGroup: Kafka's ConsumerProtocolSubscription and

ConsumerProtocolAssignment. In groups where both protocols meet, the coordinator has to read and write them itself.
The bytes come from clients: no count or length is believed before the bytes are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from msgspec import Struct

TopicIndexes = tuple[tuple[str, tuple[int, ...]], ...]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NEWEST_VERSION = 3
# The shortest topic with its partitions: an empty name and an empty list.
_SHORTEST_ROW_BYTES = 6


class EmbeddedSubscription(Struct, frozen=True):
    version: int
    topics: tuple[str, ...]
    owned: TopicIndexes = ()
    rack_id: str | None = None


def read_subscription(metadata: bytes) -> EmbeddedSubscription | None:
    """None if these bytes are no subscription. Later versions only append fields, so they are read as the newest."""
    reader = _Reader(metadata)
    try:
        version = min(reader.int16(), _NEWEST_VERSION)
        if version < 0:
            return None
        topics = tuple(reader.text() for _ in range(reader.count(_INT16.size)))
        reader.skip_bytes()
        owned = reader.topic_indexes() if version >= 1 else ()
        if version >= 2:
            # The generation in which it owned them. Who reports a partition as owned is believed, whatever it says.
            reader.int32()
        rack_id = reader.optional_text() if version >= 3 else None
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return EmbeddedSubscription(version, topics, owned, rack_id)


def read_assignment(assignment: bytes) -> TopicIndexes | None:
    """None if these bytes are no assignment. No bytes at all are an empty one: the leader left the member out."""
    if not assignment:
        return ()
    reader = _Reader(assignment)
    try:
        return reader.topic_indexes() if reader.int16() >= 0 else None
    except (struct.error, UnicodeDecodeError, ValueError):
        return None


def write_assignment(partitions: Iterable[tuple[str, Iterable[int]]], version: int) -> bytes:
    """In the version that the member's own subscription has; all are laid out alike."""
    rows = sorted((topic, sorted(indexes)) for topic, indexes in partitions)
    parts = [_INT16.pack(version), _INT32.pack(len(rows))]
    for topic, indexes in rows:
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name, struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    parts.append(_INT32.pack(-1))
    return b"".join(parts)


class _Reader:
    """Raises struct.error or ValueError where the bytes end too early or make no sense."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def int16(self) -> int:
        (value,) = _INT16.unpack_from(self._data, self._place)
        self._place += _INT16.size
        return int(value)

    def int32(self) -> int:
        (value,) = _INT32.unpack_from(self._data, self._place)
        self._place += _INT32.size
        return int(value)

    def count(self, shortest_element_bytes: int) -> int:
        count = self.int32()
        if count < 0 or count * shortest_element_bytes > len(self._data) - self._place:
            raise ValueError("a count beyond the end of the bytes")
        return count

    def text(self) -> str:
        text = self.optional_text()
        if text is None:
            raise ValueError("null where none is allowed")
        return text

    def optional_text(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode()

    def skip_bytes(self) -> None:
        self._take(max(0, self.int32()))

    def topic_indexes(self) -> TopicIndexes:
        return tuple((self.text(), self._indexes()) for _ in range(self.count(_SHORTEST_ROW_BYTES)))

    def _indexes(self) -> tuple[int, ...]:
        count = self.count(_INT32.size)
        return struct.unpack(f">{count}i", self._take(count * _INT32.size))

    def _take(self, length: int) -> bytes:
        taken = self._data[self._place : self._place + length]
        if len(taken) < length:
            raise ValueError("a length beyond the end of the bytes")
        self._place += length
        return taken
