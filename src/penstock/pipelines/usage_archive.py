"""The events of `__usage` as they are archived: the table that all of `usage` is worked out from."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.pipelines.core.closing import Seen
from penstock.pipelines.core.ledger import Range
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Target
from penstock.pipelines.table_rows import read_rows
from penstock.pipelines.tables.opening import open_table
from penstock.units import HOUR_MS

# docs/usage.md says what they mean.
FORMAT = 1
EVENT = (
    "format int, node int, broker_epoch long, sequence long, from_ms long, to_ms long, first boolean, last boolean, "
    "gap_before boolean, usage array<struct<tenant: string, topic: string, api: string, messages: long, bytes: long, "
    "requests: long>>"
)
KEY = ("node", "broker_epoch", "sequence")

_PLACE = "partition int, offset long"
# Without `usage`: to ask whether it is null would be to read it, and most who read events have no need of it.
_NEEDED = ("format", *KEY, "from_ms", "to_ms", "first", "last", "gap_before")


class UsageArchive:
    """What was archived at the moment when this was made; what others archive meanwhile is not in it."""

    def __init__(self, session: SparkSession, target: Target) -> None:
        table, unreadable = open_table(target), open_table(target.unreadable)
        # Ledgers before files: of what is archived in between there are files, and no offsets that count.
        self.ranges = tuple(found for ledger in table.ledgers().values() for found in ledger.ranges)
        is_archived = within(self.ranges)
        self._records = read_rows(session, table, f"{_PLACE}, value struct<{EVENT}>").where(is_archived)
        self._unreadable = read_rows(session, unreadable, _PLACE).where(is_archived)

    def events(self) -> DataFrame:
        """With columns `partition` and `offset`, doubles and all."""
        return self._records.where(_is_whole()).select("partition", "offset", "value.*")

    def unreadable(self) -> DataFrame:
        """Where they are: `partition` and `offset`."""
        return self._records.where(~_is_whole()).select("partition", "offset").unionByName(self._unreadable)

    def seen(self, open_hour: int | None, added: Iterable[Range], now_ms: int) -> Seen | None:
        """None: no event that has happened. A clock that is ahead makes no hour final before it is over."""
        has_happened = f.col("to_ms") <= now_ms
        is_late = f.lit(False)
        if open_hour is not None:
            is_late = within(added) & (f.col("to_ms") <= open_hour * HOUR_MS)
        found = (
            self.events()
            .agg(
                f.max("format"),
                f.min(f.when(has_happened, f.col("to_ms"))),
                f.max(f.when(has_happened, f.col("to_ms"))),
                f.min(f.when(is_late, f.col("to_ms"))),
            )
            .collect()[0]
        )
        if (found[0] or FORMAT) > FORMAT:
            raise PipelineRefused(
                f"there are usage events of format {found[0]}, and this is for {FORMAT}: update Penstock here too"
            )
        return None if found[1] is None else Seen(found[1], found[2], found[3])


def within(ranges: Iterable[Range]) -> Column:
    """Whether a record is one of these."""
    of_one = (
        (f.col("partition") == found.partition) & (f.col("offset") >= found.start) & (f.col("offset") < found.end)
        for found in ranges
    )
    return reduce(or_, of_one, f.lit(False))


def _is_whole() -> Column:
    return reduce(and_, (f.col(f"value.{name}").isNotNull() for name in _NEEDED))
