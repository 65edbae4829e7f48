"""Which topics a classic consumer subscribes to, read from the metadata that it sends with JoinGroup."""

from __future__ import annotations

import struct

_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics, or None if these bytes are no consumer subscription.

    Only the part that all versions of Kafka's ConsumerProtocolSubscription share is read: a version, then the topics.
    The bytes come from a client, so no count or length is believed before the bytes are there.
    """
    try:
        version, count = _COUNT.unpack_from(metadata)
        if version < 0 or count < 0:
            return None
        place = _COUNT.size
        topics = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, place)
            place += _LENGTH.size
            end = place + length
            if length < 0 or end > len(metadata):
                return None
            topics.add(metadata[place:end].decode())
            place = end
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
