"""The runs of a cluster's nodes as their events tell them, and what is missing between."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

from penstock.pipelines.core.usage_gaps import Gap, Hole, Life, Why, find_gaps
from penstock.pipelines.usage_archive import KEY, UsageArchive

_LIFE = KEY[:2]


class Checked(NamedTuple):
    gaps: list[Gap]
    # Events that were there more than once, and counted once.
    doubles: int


def check_lives(archive: UsageArchive, watermark_ms: int) -> Checked:
    """Of all that is archived: few columns, and few rows that are brought here."""
    facts = ("from_ms", "to_ms", "first", "last", "gap_before")
    # By life first: then nothing has to be moved again, neither for doubles nor for what is missing between.
    events = (
        archive.events()
        .select(*KEY, *facts)
        .repartition(*_LIFE)
        .groupBy(*KEY)
        .agg(*(f.first(name).alias(name) for name in facts), f.count(f.lit(1)).alias("copies"))
    )
    in_order = Window.partitionBy(*_LIFE).orderBy("sequence")
    hole = f.struct(f.col("ended_ms"), f.col("from_ms"), f.expr("sequence - before - 1"))
    lives = (
        events.withColumn("before", f.lag("sequence").over(in_order))
        .withColumn("ended_ms", f.lag("to_ms").over(in_order))
        .groupBy(*_LIFE)
        .agg(
            f.min_by("from_ms", "sequence"),
            f.max_by("to_ms", "sequence"),
            f.min_by("first", "sequence"),
            f.max_by("last", "sequence"),
            f.min_by("gap_before", "sequence"),
            f.collect_list(f.when(f.expr("sequence > before + 1"), hole)).alias("holes"),
            f.sum(f.col("copies") - 1).alias("doubles"),
        )
        .collect()
    )
    holes = [Hole(row["node"], row["broker_epoch"], *hole) for row in lives for hole in row["holes"]]
    gaps = find_gaps((Life(*row[:7]) for row in lives), holes, watermark_ms)
    unreadable = archive.unreadable().count()
    if unreadable:
        gaps.append(Gap(None, None, None, None, unreadable, Why.UNREADABLE))
    return Checked(gaps, sum(row["doubles"] for row in lives))
