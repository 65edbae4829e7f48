"""Rows from Spark into a topic, back as a batch, and as a stream into another topic: at every end the same rows."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from urllib.request import urlopen

from pyspark.sql import DataFrame, SparkSession
from tests.spark.checksums import Checksum, checksum_of

PARTITIONS = 12
_WRITERS = 4


@dataclass(frozen=True)
class Trip:
    """Plain, so that a driver of its own can be sent on it. Both topics have 12 partitions."""

    bootstrap: str
    topic: str
    copy: str
    group: str
    checkpoint: str
    rows: int
    # How many offsets a batch of the stream has.
    batch_offsets: int
    # Of the first row; the others follow, a millisecond each.
    begin_ms: int
    format: str = "penstock"

    @property
    def keeps_times(self) -> bool:
        """Spark's own sink writes no timestamps."""
        return self.format == "penstock"

    def sink(self, topic: str) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic}
        return {**options, "delivery": "exactly-once", "includeTimestamp": "true"} if self.keeps_times else options

    def source(self, topic: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
        }


@dataclass(frozen=True)
class Seen:
    made: Checksum
    read: Checksum
    copied: Checksum
    batches: int
    seconds: dict[str, float]
    # By executor.
    tasks: dict[str, int]


def round_trip(spark: SparkSession, trip: Trip) -> Seen:
    seconds = {}
    rows = made(spark, trip)
    begun = time.monotonic()
    rows.write.format(trip.format).mode("append").options(**trip.sink(trip.topic)).save()
    seconds["write"] = time.monotonic() - begun
    begun = time.monotonic()
    read = checksum_read(spark, trip, trip.topic)
    seconds["read"] = time.monotonic() - begun
    begun = time.monotonic()
    batches = _copied_by_a_stream(spark, trip)
    seconds["stream"] = time.monotonic() - begun
    return Seen(
        made=checksum_of(rows, times=trip.keeps_times),
        read=read,
        copied=checksum_read(spark, trip, trip.copy),
        batches=batches,
        seconds={name: round(took, 1) for name, took in seconds.items()},
        tasks=_tasks(spark),
    )


def made(spark: SparkSession, trip: Trip) -> DataFrame:
    """Keys, values and headers: of many lengths, empty, and null."""
    return spark.range(0, trip.rows, 1, _WRITERS).selectExpr(
        "if(id % 17 = 0, null, cast(concat('k', id) as binary)) as key",
        "if(id % 19 = 0, if(id % 17 = 0, binary(''), null), cast(rpad(id, 10 + id % 90, 'x') as binary)) as value",
        "case when id % 3 = 0 then null"
        " when id % 3 = 1 then array(named_struct('key', 'n°', 'value', binary(string(id))))"
        " else array(named_struct('key', 'a', 'value', cast(null as binary)),"
        " named_struct('key', 'a', 'value', binary(''))) end as headers",
        f"cast(pmod(hash(id), {PARTITIONS}) as int) as partition",
        f"timestamp_millis({trip.begin_ms} + id) as timestamp",
    )


def checksum_read(spark: SparkSession, trip: Trip, topic: str) -> Checksum:
    """By a batch query, of what is committed."""
    return checksum_of(spark.read.format(trip.format).options(**trip.source(topic)).load(), times=trip.keeps_times)


def _copied_by_a_stream(spark: SparkSession, trip: Trip) -> int:
    limit = {"maxOffsetsPerTrigger": str(trip.batch_offsets), "kafka.group.id": trip.group}
    rows = spark.readStream.format(trip.format).options(**trip.source(trip.topic), **limit).load()
    writer = rows.select("key", "value", "headers", "partition", "timestamp").writeStream.format(trip.format)
    writer = writer.options(**trip.sink(trip.copy), checkpointLocation=trip.checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return len([step for step in query.recentProgress if step.numInputRows])


def _tasks(spark: SparkSession) -> dict[str, int]:
    """How many each executor has done, as Spark's interface shows it, where there is one."""
    context = spark.sparkContext
    if context.uiWebUrl is None:
        return {}
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/allexecutors", timeout=20) as answer:
        rows = json.load(answer)
    return {row["id"]: row["totalTasks"] for row in rows if row["totalTasks"]}
