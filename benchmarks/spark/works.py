"""What Spark is asked to do, by the data source `penstock` and by its own, `kafka`: in the same words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from benchmarks.load.job import Job, LoadFailed
from benchmarks.load.source import Arrivals
from benchmarks.spark.meter import Usage, costs, rates
from benchmarks.targets import OURS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

_QUERY_S = 300
WRITERS = 4
# Parts of a micro-batch as Spark tells them, in the order in which they happen.
_STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


class Place(NamedTuple):
    """Where a work is done. The format of a data source is also the name of its side."""

    spark: SparkSession
    format: str
    address: str
    topic: str
    sink_topic: str
    # Of this one run.
    checkpoint: str

    def source_options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address, "subscribe": self.topic, "startingOffsets": "earliest"}

    def sink_options(self, exactly_once: bool) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.address, "topic": self.sink_topic}
        return {**options, "delivery": "exactly-once"} if exactly_once else options


class Work(Protocol):
    def run(self, place: Place) -> dict[str, float]:
        """What it can tell itself. Raises LoadFailed if what it got is not what was there."""

    def metrics(self, used: Usage) -> dict[str, float]:
        """What it has cost."""


@dataclass(frozen=True)
class Read:
    """A batch query over a whole topic. A narrower schema is for ours: Spark's own reads all columns, always."""

    rows: int
    row_bytes: int
    schema: str | None = None

    def run(self, place: Place) -> dict[str, float]:
        reader = place.spark.read.format(place.format).options(**place.source_options())
        if self.schema is not None and place.format == OURS:
            reader = reader.schema(self.schema)
        _check_sum(reader.load(), self.rows * self.row_bytes)
        return {}

    def metrics(self, used: Usage) -> dict[str, float]:
        return rates(self.rows, self.row_bytes, used)


@dataclass(frozen=True)
class ReadyMade:
    """The same query over rows that cost nothing to make: what a data source in Python can reach at all."""

    rows: int
    row_bytes: int
    schema: str | None = None

    def run(self, place: Place) -> dict[str, float]:
        reader = place.spark.read.format("ready-made").options(rows=self.rows, rowBytes=self.row_bytes)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        _check_sum(reader.load(), self.rows * self.row_bytes)
        return {}

    def metrics(self, used: Usage) -> dict[str, float]:
        return rates(self.rows, self.row_bytes, used)


@dataclass(frozen=True)
class CatchUp:
    """A streaming query over a whole topic, in one micro-batch, to nowhere."""

    rows: int
    row_bytes: int
    schema: str | None = None

    def run(self, place: Place) -> dict[str, float]:
        reader = place.spark.readStream.format(place.format).options(**place.source_options())
        if self.schema is not None and place.format == OURS:
            reader = reader.schema(self.schema)
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", place.checkpoint)
        steps = _finished(writer.trigger(availableNow=True).start(), self.rows)
        return _step_times(steps)

    def metrics(self, used: Usage) -> dict[str, float]:
        return rates(self.rows, self.row_bytes, used)


@dataclass(frozen=True)
class MicroBatches:
    """A streaming query with next to nothing in each of its batches: what a batch costs."""

    batches: int
    rows_each: int
    into_sink: bool = False
    exactly_once: bool = False

    def run(self, place: Place) -> dict[str, float]:
        limit = {"maxOffsetsPerTrigger": str(self.rows_each)}
        rows = place.spark.readStream.format(place.format).options(**place.source_options(), **limit).load()
        if self.into_sink:
            writer = rows.select("value").writeStream.format(place.format)
            writer = writer.options(**place.sink_options(self.exactly_once))
        else:
            writer = rows.writeStream.format("noop")
        query = writer.option("checkpointLocation", place.checkpoint).trigger(availableNow=True).start()
        steps = _finished(query, self.batches * self.rows_each)
        # The first one also starts what all of them need.
        later = [step for step in steps if step.numInputRows][1:]
        took_ms = [step.durationMs["triggerExecution"] for step in later]
        return {"ms/micro-batch": statistics.median(took_ms), **_step_times(later)}

    def metrics(self, used: Usage) -> dict[str, float]:
        return costs(self.batches, used)


@dataclass(frozen=True)
class Write:
    """A batch query into a topic, of rows that Spark makes on the way."""

    rows: int
    row_bytes: int
    exactly_once: bool = False

    def run(self, place: Place) -> dict[str, float]:
        arrivals = Arrivals(Job(address=place.address, topic=place.sink_topic))
        value = expr(f"CAST(rpad(CAST(id AS STRING), {self.row_bytes}, 'x') AS BINARY) AS value")
        rows = place.spark.range(0, self.rows, 1, WRITERS).select(value)
        rows.write.format(place.format).options(**place.sink_options(self.exactly_once)).mode("append").save()
        if not self.exactly_once:
            arrivals.expect(self.rows)
        elif not self.rows < arrivals.so_far() <= self.rows + WRITERS * len(arrivals.partitions):
            raise LoadFailed(f"{self.rows} rows and some markers were written, {arrivals.so_far()} arrived")
        return {}

    def metrics(self, used: Usage) -> dict[str, float]:
        return rates(self.rows, self.row_bytes, used)


def _check_sum(rows: DataFrame, expected: int) -> None:
    found = rows.agg(expr("sum(length(value))")).collect()[0][0]
    if found != expected:
        raise LoadFailed(f"the lengths of all values are {found} together, not {expected}")


def _finished(query: StreamingQuery, rows: int) -> list[StreamingQueryProgress]:
    """What it tells of its batches."""
    if not query.awaitTermination(_QUERY_S):
        query.stop()
        raise LoadFailed(f"a streaming query did not end within {_QUERY_S} s")
    steps: list[StreamingQueryProgress] = list(query.recentProgress)
    found = sum(step.numInputRows for step in steps)
    if found != rows:
        raise LoadFailed(f"a streaming query read {found} rows, not {rows}")
    return steps


def _step_times(steps: Sequence[StreamingQueryProgress]) -> dict[str, float]:
    return {f"{name} ms": statistics.median(step.durationMs.get(name, 0) for step in steps) for name in _STEPS}
