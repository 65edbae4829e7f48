"""Where replicas differ: Spark brings the digests of all segments of all of them together."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipelines.core.audit_plan import Name

# Of one partition: more than it has ranges, so that one of which everything differs hides nothing of another, nor what
# is no wonder there something else.
_MOST_DIFFERENCES = 10_000
_WINDOW_SLOT_BYTES = 8


class Difference(NamedTuple):
    """At `offset`, or in the window that begins there. `answers`: of the replicas that have something there, all with

    the same number have the same.
    """

    name: Name
    offset: int
    by_key: bool
    answers: tuple[tuple[str, str], ...]

    @property
    def replicas(self) -> tuple[str, ...]:
        return tuple(replica for replica, _ in self.answers)

    def text(self) -> str:
        """Who agrees with whom."""
        alike: dict[str, list[str]] = {}
        for replica, answer in self.answers:
            alike.setdefault(answer, []).append(replica)
        parties = " against ".join(" and ".join(replicas) for replicas in alike.values())
        if len(alike) == 1:
            return f"{'the newest record of a key' if self.by_key else 'what is there'} is on {parties} alone"
        what = "the newest record of a key is not the same" if self.by_key else "their batches are not the same"
        return f"{what}: {parties}"


def differences(digests: DataFrame) -> list[Difference]:
    digests = digests.where("slot IS NOT NULL")
    return [*_of_windows(digests), *_of_keys(digests)]


def _of_windows(digests: DataFrame) -> list[Difference]:
    """Every replica has the same batches in each window."""
    replicas = (
        digests.where(F.length("slot") == _WINDOW_SLOT_BYTES)
        .groupBy("topic", "partition", "slot", "replicas", "replica")
        .agg(
            F.min("offset").alias("offset"),
            F.sum("parts").alias("parts"),
            F.bit_xor("high").alias("high"),
            F.bit_xor("low").alias("low"),
        )
    )
    windows = replicas.groupBy("topic", "partition", "slot", "replicas").agg(
        F.min("offset").alias("offset"), F.collect_list(F.struct("replica", "parts", "high", "low")).alias("answers")
    )
    differ = windows.where(
        "size(answers) < replicas OR size(array_distinct(transform(answers, a -> struct(a.parts, a.high, a.low)))) > 1"
    )
    return _collected(differ, by_key=False)


def _of_keys(digests: DataFrame) -> list[Difference]:
    """Of every key the newest record is the same, or it is deleted or gone everywhere. A key with a newer record beyond

    what is compared says nothing: that may have pushed out the older one already, on some of the replicas.
    """
    replicas = (
        digests.where(F.length("slot") > _WINDOW_SLOT_BYTES)
        .groupBy("topic", "partition", "slot", "replicas", "below", "replica")
        .agg(F.max(F.struct("offset", "parts", "high", "low")).alias("newest"))
    )
    keys = replicas.groupBy("topic", "partition", "slot", "replicas", "below").agg(
        F.max("newest.offset").alias("offset"),
        F.collect_list(
            F.struct("replica", "newest.offset", F.col("newest.parts"), F.col("newest.high"), F.col("newest.low"))
        ).alias("all"),
    )
    living = keys.where("offset < below").withColumn("answers", F.expr("filter(all, a -> a.parts > 0)"))
    differ = living.where(
        "size(answers) > 0 AND (size(answers) < replicas "
        "OR size(array_distinct(transform(answers, a -> struct(a.offset, a.high, a.low)))) > 1)"
    )
    return _collected(differ, by_key=True)


def _collected(differ: DataFrame, *, by_key: bool) -> list[Difference]:
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    rows = differ.withColumn("place", F.row_number().over(in_order)).where(F.col("place") <= _MOST_DIFFERENCES)
    # Sorted here: they are few, and Spark would shuffle them once more.
    found = [_read(row, by_key) for row in rows.select("topic", "partition", "offset", "answers").collect()]
    return sorted(found, key=lambda each: (each.name, each.offset))


def _read(row: Any, by_key: bool) -> Difference:
    answers = tuple(sorted((answer.replica, f"{answer.parts} {answer.high} {answer.low}") for answer in row.answers))
    return Difference((row.topic, row.partition), row.offset, by_key, answers)
