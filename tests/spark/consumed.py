"""What is in a topic, read to its end by a client that is not ours."""

from __future__ import annotations

import time
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_PATIENCE_S = 20.0


def consumed(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> list[Message]:
    """`committed`: nothing that is aborted. What is being committed, and whatever is open, is waited for."""
    ends = _ends(bootstrap, topic, partitions)
    consumer = _consumer(bootstrap, "read_committed" if committed else "read_uncommitted")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Message] = []
    deadline = time.monotonic() + _PATIENCE_S
    while ends and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error, partition, offset = message.error(), message.partition(), message.offset()
        assert partition is not None and offset is not None
        if error is None:
            found.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            if offset >= ends.get(partition, 0):
                ends.pop(partition, None)
    consumer.close()
    assert not ends, f"{topic} was not read to its end, {ends}"
    return found


def values(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> list[bytes]:
    """In the order of each partition."""
    return [message.value() or b"" for message in consumed(bootstrap, topic, partitions, committed=committed)]


def _ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Behind everything that was written, also if it is not committed."""
    consumer = _consumer(bootstrap, "read_uncommitted")
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    ends = {place.partition: consumer.get_watermark_offsets(place, timeout=_PATIENCE_S)[1] for place in places}
    consumer.close()
    return ends


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid4().hex,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
