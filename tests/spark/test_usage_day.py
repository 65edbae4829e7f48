"""A day of three nodes: kills, lost answers, late events, drivers that die. Run by `make torture usage`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests import scale
from tests.spark.usage_run import PARTITIONS, TENANTS, Counts, check_bills, contents, count, go, rows_of, run_of, used
from tests.spark.written import new_topic, producer

from penstock.pipelines.core.usage_gaps import Why
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.usage import usage
from penstock.telemetry.usage import Usage
from penstock.telemetry.usage_events import Event, UsageEvents
from penstock.testing import TestNode
from penstock.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

# A month ends in the middle of it.
BEGIN_MS = 1_790_812_800_000 - 10 * HOUR_MS
INTERVAL_MS = 10 * SECOND_MS
PASSES = 3


class Arrival(NamedTuple):
    at_ms: int
    partition: int
    event: Event


class Day:
    """What three nodes write, and what their clients have counted."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.sent: Counts = Counter()
        self.arrivals: list[Arrival] = []
        self.kills = 0
        self.doubles = 0
        for node in range(1, 4):
            self._live(node)
        self.arrivals.sort(key=lambda arrival: arrival.at_ms)

    def _live(self, node: int) -> None:
        chance, epoch = self._chance, node
        life = UsageEvents(node, epoch, BEGIN_MS, gap_before=False)
        for now_ms in range(BEGIN_MS + INTERVAL_MS, BEGIN_MS + DAY_MS + 1, INTERVAL_MS):
            # Not at the end, so that there is a life behind it that shows the gap: its last interval is nobody's.
            if life.has_begun and now_ms < BEGIN_MS + DAY_MS - HOUR_MS and chance.random() < 1 / 2000:
                epoch += 10
                self.kills += 1
                life = UsageEvents(node, epoch, now_ms, gap_before=True)
                continue
            stops = chance.random() < 1 / 3000
            for event in life.cut(self._used().take(), now_ms, last=stops):
                self._arrives(event, chance.randrange(PARTITIONS))
            if stops:
                epoch += 10
                life = UsageEvents(node, epoch, now_ms, gap_before=False)

    def _used(self) -> Usage:
        usage_, chance = Usage(1000), self._chance
        for _ in range(chance.randrange(10)):
            tenant, api = chance.choice(TENANTS), chance.choice(["Produce", "Fetch", "Metadata"])
            messages = 0 if api == "Metadata" else chance.randrange(1000)
            usage_.of_api(api).count(tenant, "orders", messages, 100 * messages, 3)
            count(self.sent, tenant, api, messages, 100 * messages, 3)
        return usage_

    def _arrives(self, event: Event, partition: int) -> None:
        chance, at_ms = self._chance, event.timestamp_ms
        while True:
            at_ms += chance.choices([1, 30 * MINUTE_MS, 5 * HOUR_MS], [90, 8, 2])[0]
            self.arrivals.append(Arrival(at_ms, partition, event))
            if chance.random() > 0.05:
                return
            self.doubles += 1
            partition = chance.randrange(PARTITIONS)


class DriverGone(Exception):
    pass


def die(_: BatchReport) -> None:
    raise DriverGone


@pytest.mark.torture("usage")
def test_a_day_at_its_own_pace(
    spark: SparkSession,
    spark_node: TestNode,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    chance = random.Random(scale.seed())
    kind = chance.choice(["parquet", "delta"])
    day = Day(chance)
    topic = new_topic(spark_node.bootstrap, PARTITIONS, config={"retention.ms": "-1"})
    client, sent = producer(spark_node.bootstrap), 0
    moments = sorted(chance.sample(range(len(day.arrivals)), PASSES - 1))
    corrections = 0
    for moment in [*moments, len(day.arrivals)]:
        for arrival in day.arrivals[sent:moment]:
            key, value, timestamp_ms = arrival.event
            client.produce(topic, value, key, arrival.partition, timestamp=timestamp_ms)
            client.poll(0)
        assert client.flush(60) == 0
        sent = moment
        now_ms = day.arrivals[moment - 1].at_ms
        run = run_of(spark_node.bootstrap, topic, tmp_path, late_ms=HOUR_MS, kind=kind)
        if chance.random() < 0.5:
            with pytest.raises(StreamingQueryException):
                usage(spark, run, now_ms, die)
        corrections += go(spark, run, now_ms).closed.corrections
    run = run_of(spark_node.bootstrap, topic, tmp_path, kind=kind)
    last = go(spark, run, BEGIN_MS + 2 * DAY_MS)
    corrections += last.closed.corrections
    assert used(rows_of(run.tables.hours)) == day.sent
    check_bills(run, day.sent)
    assert Counter(gap.why for gap in last.checked.gaps) == Counter({Why.KILLED: day.kills})
    assert last.checked.doubles == day.doubles
    before = contents(tmp_path)
    go(spark, run, BEGIN_MS + 2 * DAY_MS)
    assert contents(tmp_path) == before
    record_property("table", kind)
    record_property("events", len(day.arrivals) - day.doubles)
    record_property("doubles", day.doubles)
    record_property("correction_rows", corrections)
    record_property("gaps", day.kills)
    record_property("messages", sum(number for (_, _, name), number in day.sent.items() if name == "messages"))
