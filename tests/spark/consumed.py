"""What is in a topic, read to its end by a client that is not ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_PATIENCE_S = 20.0


def consumed(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> list[Message]:
    """`committed`: nothing that is aborted. What is being committed, and whatever is open, is waited for."""
    return list(each_consumed(bootstrap, topic, partitions, committed=committed))


def each_consumed(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> Iterator[Message]:
    """The same one by one, for topics that are too large to be held."""
    ends = _ends(bootstrap, topic, partitions)
    consumer = _consumer(bootstrap, "read_committed" if committed else "read_uncommitted")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while ends and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.1):
                error, partition, offset = message.error(), message.partition(), message.offset()
                assert partition is not None and offset is not None
                if error is None:
                    deadline = time.monotonic() + _PATIENCE_S
                    yield message
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    if offset >= ends.get(partition, 0):
                        ends.pop(partition, None)
    finally:
        consumer.close()
    assert not ends, f"{topic} was not read to its end, {ends}"


def values(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> list[bytes]:
    """In the order of each partition."""
    return [message.value() or b"" for message in consumed(bootstrap, topic, partitions, committed=committed)]


def lag(bootstrap: str, group: str, topic: str, partitions: int = 1) -> int:
    """How much of the topic the group has not committed, all partitions together; of nothing committed it is all."""
    consumer = _consumer(bootstrap, "read_committed", group)
    try:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        done = {place.partition: max(place.offset, 0) for place in consumer.committed(places, timeout=_PATIENCE_S)}
        ends = _ends(bootstrap, topic, partitions)
        return sum(ends[partition] - done[partition] for partition in ends)
    finally:
        consumer.close()


def _ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Behind everything that was written, also if it is not committed."""
    consumer = _consumer(bootstrap, "read_uncommitted")
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    ends = {place.partition: consumer.get_watermark_offsets(place, timeout=_PATIENCE_S)[1] for place in places}
    consumer.close()
    return ends


def _consumer(bootstrap: str, isolation: str, group: str | None = None) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or uuid4().hex,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
