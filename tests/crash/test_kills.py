"""kill -9 under load: nothing acknowledged is lost, nothing is there twice, order holds, offsets never go back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests import scale
from tests.crash.broker import QUIET, CrashingBroker, crashing_broker
from tests.crash.load import IN_FLIGHT, Load, read_all
from tests.interop.waiting import eventually

TOPIC, PARTITIONS = "orders", 3
# Small segments, so that kills also meet rolls, sealed indexes and snapshots.
SETTINGS = {"segment.bytes": str(256 * 1024), "offsets.topic.num.partitions": "2"}


def test_five_kills(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    # Fewer messages than in the torture, because all of them are read back in the end.
    nothing_is_lost_or_doubled(5, tmp_path, record_property, in_flight=300)


@pytest.mark.torture("kills")
def test_a_hundred_kills(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    nothing_is_lost_or_doubled(100, tmp_path, record_property)


def nothing_is_lost_or_doubled(
    kills: int, tmp_path: Path, record_property: Callable[[str, object], None], in_flight: int = IN_FLIGHT
) -> None:
    chance = random.Random(scale.seed())
    with crashing_broker(tmp_path, SETTINGS) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        commits = Commits(broker)
        load = Load(broker.bootstrap, TOPIC, PARTITIONS, in_flight)
        slowest_start = 0.0
        for _ in range(kills):
            wanted = load.acknowledged_count + chance.randrange(50, 5000)
            eventually(lambda at=wanted: load.acknowledged_count >= at, "more is acknowledged", timeout_s=60)  # type: ignore[misc]
            commits.commit({partition: len(load.acknowledged[partition]) for partition in range(PARTITIONS)})
            ends = end_offsets(broker)
            broker.kill()
            slowest_start = max(slowest_start, broker.start())
            for partition, end in end_offsets(broker).items():
                assert end >= ends[partition], f"the end of partition {partition} went back from {ends[partition]}"
            commits.check()
        load.stop()
        assert not load.failures, load.failures[:3]
        read = read_all(broker.bootstrap, TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            for offset, sequence in load.acknowledged[partition].items():
                assert read[partition].get(offset) == sequence, f"acknowledged {sequence} at {offset} is lost"
            assert list(read[partition].values()) == list(range(load.sent[partition])), "order or number is wrong"
        assert "unexpected" not in broker.log_text()
    record_property("kills", kills)
    record_property("acknowledged", load.acknowledged_count)
    record_property("slowest_start_seconds", round(slowest_start, 2))


def end_offsets(broker: CrashingBroker) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", **QUIET})
    try:
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=20)[1]
            for partition in range(PARTITIONS)
        }
    finally:
        consumer.close()


class Commits:
    """A group's offsets, as a consumer without membership commits them."""

    def __init__(self, broker: CrashingBroker) -> None:
        self._broker = broker
        self._committed: dict[int, int] = {}

    def commit(self, offsets: dict[int, int]) -> None:
        consumer = self._consumer()
        wanted = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()
        self._committed = offsets

    def check(self) -> None:
        consumer = self._consumer()
        asked = [TopicPartition(TOPIC, partition) for partition in self._committed]
        found = {row.partition: row.offset for row in consumer.committed(asked, timeout=20)}
        consumer.close()
        assert found == self._committed

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": "commits", **QUIET})
