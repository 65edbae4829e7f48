"""Usage by the hour, tenant, topic and API: final when the watermark has passed it, corrected by what comes later.

The table only grows. A row counts besides others of its hour, never instead of them, so its sums are right whatever
was late; how a closing tells what is new is in core/closing.py. A closing is a batch of the table, so it is there as
a whole and once: one that died is done again, and of two at the same time one wins.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from penstock.pipelines.core import hours
from penstock.pipelines.core.closing import Closing, final_until, month_of, next_closing, subtracted
from penstock.pipelines.core.ledger import Ledger
from penstock.pipelines.core.target import Target
from penstock.pipelines.table_rows import TableRows
from penstock.pipelines.usage_archive import KEY, UsageArchive, within
from penstock.units import HOUR_MS

SCHEMA = pa.schema(
    [
        # When the hour begins.
        ("timestamp", pa.timestamp("us", "UTC")),
        ("tenant", pa.string()),
        ("topic", pa.string()),
        ("api", pa.string()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("requests", pa.int64()),
        # It came when the hour was final.
        ("is_correction", pa.bool_()),
        # Of the hour, and on whose invoice it is: that one, or if it was closed the one that was open.
        ("month", pa.string()),
        ("invoice", pa.string()),
        ("closing", pa.int64()),
    ]
)

_BILLED = (
    "timestamp timestamp, tenant string, api string, messages long, bytes long, requests long, is_correction boolean, "
    "month string, invoice string, closing long"
)
_UNIX_DAY_0 = date(1970, 1, 1)


class Closed(NamedTuple):
    """What one closing has added."""

    hours: int = 0
    rows: int = 0
    corrections: int = 0


class UsageHours:
    def __init__(self, session: SparkSession, target: Target) -> None:
        self._session = session
        self._table = TableRows(session, target, SCHEMA, "hours")

    def ledger(self) -> Ledger | None:
        return self._table.ledger()

    def rows(self, first_closing: int, last_closing: int) -> DataFrame:
        """Without their topics, of these closings, both ends included; the last must be there."""
        return self._table.read(_BILLED).where(f.col("closing").between(first_closing, last_closing))

    def close(self, events: Target, late_ms: int, now_ms: int) -> Closed:
        # This ledger before that of the archive: what a closing knew is archived, but not the other way round.
        known = self.ledger()
        archive = UsageArchive(self._session, events)
        added = subtracted(archive.ranges, known.ranges if known is not None else ())
        seen = archive.seen(final_until(known), added, now_ms)
        if seen is None:
            return Closed()
        closing = next_closing(known, added, seen, late_ms)
        count = closing.end_hour - closing.open_hour
        if not count and seen.first_late_ms is None:
            return Closed()
        files = self._table.commit(closing.number, closing.ranges, summed(archive, closing), even_empty=count > 0)
        if files is None:
            return Closed()
        late = [file for file in files if file.hour < hours.label(closing.open_hour)]
        return Closed(count, sum(file.rows for file in files), sum(file.rows for file in late))


def summed(archive: UsageArchive, closing: Closing) -> DataFrame:
    """The rows of a closing: each event that no closing has counted yet, once."""
    begin_ms, open_ms, end_ms = (hour * HOUR_MS for hour in (closing.first_hour, closing.open_hour, closing.end_hour))
    in_time = (f.col("to_ms") > begin_ms) & (f.col("to_ms") <= end_ms)
    is_counted = (f.col("to_ms") <= open_ms) & ~within(closing.added)
    events = archive.events().where(in_time).withColumn("is_counted", is_counted)
    # A double has the same content, so it is of the same hour, and both are among these.
    same = Window.partitionBy(*KEY).orderBy(f.col("is_counted").desc(), "partition", "offset")
    once = events.withColumn("place", f.row_number().over(same)).where((f.col("place") == 1) & ~f.col("is_counted"))
    hour = f.expr(f"(to_ms - 1) div {HOUR_MS}")
    series = once.select(hour.alias("hour_number"), f.explode("usage").alias("used")).select("hour_number", "used.*")
    month = _month(f.col("hour_number"))
    return (
        series.groupBy("hour_number", "tenant", "topic", "api")
        .agg(*(f.sum(name).alias(name) for name in ("messages", "bytes", "requests")))
        .withColumn("timestamp", f.timestamp_millis(f.col("hour_number") * HOUR_MS))
        .withColumn("is_correction", f.col("hour_number") < closing.open_hour)
        .withColumn("month", month)
        .withColumn("invoice", f.greatest(month, f.lit(month_of(closing.open_hour))))
        .withColumn("closing", f.lit(closing.number).cast("long"))
        .select(*SCHEMA.names)
    )


def _month(hour: Column) -> Column:
    """By UTC, whatever the session's time zone is: a date has none."""
    return f.date_format(f.date_add(f.lit(_UNIX_DAY_0), (hour / 24).cast("int")), "yyyy-MM")
