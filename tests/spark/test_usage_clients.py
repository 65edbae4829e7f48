"""A day of fifty tenants with clients that count: stops, kill -9, doubles, late events. Run by `make torture usage`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from tests import scale
from tests.interop.waiting import eventually
from tests.node.usage_topic import read_records
from tests.spark.clocked_node import ClockedNode, clocked_node
from tests.spark.usage_clients import WAIT_S, Reader, Senders
from tests.spark.usage_events import append, late_events
from tests.spark.usage_run import PARTITIONS, TENANTS, Counts, contents, go, rows_of, run_of, used
from tests.spark.written import new_topic

from penstock.pipelines.core.usage_gaps import Gap, Why
from penstock.pipelines.usage import TOPIC
from penstock.units import DAY_MS, HOUR_MS, MINUTE_MS

INTERVAL_MS = MINUTE_MS
INTERVALS = DAY_MS // INTERVAL_MS
# Only what these do is at risk when a node is killed.
RISKING = TENANTS[:5]
READERS = ("reader1", "reader2")
KILLS = STOPS = 4
PASSES = 2


class Day:
    """One node, on which every tenant has a client that sends, and some read all that is sent."""

    def __init__(self, running: ClockedNode, chance: random.Random) -> None:
        self._running = running
        self._chance = chance
        topic = new_topic(running.bootstrap, PARTITIONS)
        self.senders = Senders(running.bootstrap, topic, TENANTS)
        self.readers = {tenant: Reader(running.bootstrap, topic, PARTITIONS, tenant) for tenant in READERS}
        self._watcher = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "watcher", "log_level": 0})
        self.begin_ms = self.now_ms = running.advance(0)
        self.killed_ms: list[int] = []
        # What was sent and read in intervals that a kill has ended.
        self.at_risk: Counter[str] = Counter()

    def go_on(self, *, by_ms: int = INTERVAL_MS) -> None:
        self.now_ms = self._running.advance(by_ms)

    def send(self) -> None:
        self.senders.send(self._chance.sample(TENANTS, 8), self._chance)

    def stop(self) -> None:
        # What is on its way to a reader when a node goes is counted, and read again.
        self.catch_up()
        self._running.stop()
        self._running.start()

    def kill(self) -> None:
        # Twice: while an event is on its way no other is begun.
        for _ in range(2):
            self.write_down()
        before = Counter(self.senders.sent)
        self.senders.send(RISKING, self._chance)
        self.catch_up()
        added = self.senders.sent - before
        self.at_risk += added
        self.at_risk.update(dict.fromkeys(READERS, added.total()))
        self.killed_ms.append(self._running.advance(0))
        self._running.kill()
        self._running.start()

    def catch_up(self) -> None:
        for reader in self.readers.values():
            reader.read_until(self.senders.sent.total())

    def write_down(self) -> None:
        """The interval ends, and its event is in the topic."""
        self.catch_up()
        before = self._written()
        self.go_on()
        eventually(lambda: self._written() > before, "usage is written down", timeout_s=WAIT_S)

    def _written(self) -> int:
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        return sum(self._watcher.get_watermark_offsets(place, timeout=WAIT_S)[1] for place in places)

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        self._watcher.close()


def check_messages(rows: list[dict[str, object]], day: Day, late: Counts) -> None:
    """To the message; a kill may have taken what it could."""
    found = used(rows)
    for tenant in TENANTS:
        counted = found[tenant, "Produce", "messages"] - late[tenant, "Produce", "messages"]
        assert 0 <= day.senders.sent[tenant] - counted <= day.at_risk[tenant], tenant
    for tenant, reader in day.readers.items():
        assert 0 <= reader.read - found[tenant, "Fetch", "messages"] <= day.at_risk[tenant], tenant


def check_gaps(gaps: list[Gap], killed_ms: list[int]) -> None:
    """Each shows when it was, and that no more than an interval is missing."""
    spans = [(gap.from_ms or 0, gap.to_ms or 0) for gap in gaps if gap.node == 1]
    assert len(spans) == len(killed_ms)
    for (from_ms, to_ms), moment_ms in zip(spans, killed_ms, strict=True):
        assert from_ms <= moment_ms <= to_ms
        assert moment_ms - from_ms <= INTERVAL_MS


@pytest.mark.torture("usage")
def test_a_day_of_real_clients(
    spark: SparkSession, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(scale.seed())
    tables = tmp_path / "tables"
    # The first hour is for what is made by the first event; the last pass makes what is late a correction.
    moments = chance.sample(range(HOUR_MS // INTERVAL_MS, INTERVALS - 1), KILLS + STOPS + PASSES)
    kills, stops, passes = moments[:KILLS], moments[KILLS : KILLS + STOPS], [*moments[KILLS + STOPS :], INTERVALS - 1]
    # Clients whose connections end because a day takes minutes would be busy with that.
    settings = {"usage.emit.interval.ms": str(INTERVAL_MS), "connections.max.idle.ms": str(DAY_MS)}
    with clocked_node(tmp_path / "node", settings) as running:
        day = Day(running, chance)
        for interval in range(INTERVALS):
            day.send()
            if interval in kills:
                day.kill()
            if interval in stops:
                day.stop()
            day.go_on()
            if interval in passes:
                go(spark, run_of(running.bootstrap, TOPIC, tables, late_ms=10 * MINUTE_MS), day.now_ms)
        day.write_down()
        records = read_records(running.bootstrap)
        doubles = chance.sample(records, len(records) // 5)
        append(running.bootstrap, chance.randrange(PARTITIONS), doubles)
        late: Counts = Counter()
        append(running.bootstrap, chance.randrange(PARTITIONS), late_events(day.begin_ms, late))
        day.go_on(by_ms=HOUR_MS)
        day.write_down()
        run = run_of(running.bootstrap, TOPIC, tables)
        last = go(spark, run, day.now_ms)
        check_messages(rows_of(run.tables.hours), day, late)
        check_gaps(last.checked.gaps, day.killed_ms)
        assert Counter(gap.why for gap in last.checked.gaps) == Counter({Why.KILLED: KILLS + 1})
        assert (last.checked.doubles, last.closed.corrections) == (len(doubles), 3)
        before = contents(tables)
        go(spark, run, day.now_ms)
        assert contents(tables) == before
        day.close()
    record_property("events", len(records))
    record_property("doubles", len(doubles))
    record_property("kills", KILLS)
    record_property("messages_sent", day.senders.sent.total())
    record_property("messages_read", sum(reader.read for reader in day.readers.values()))
    record_property("messages_at_risk", day.at_risk.total())
    record_property("correction_rows", last.closed.corrections)
