"""`usage`: who has used how much, hour by hour, and what that costs, from the events of `__usage`.

1. The events go into a table, as any topic does (archive.py): from then on nothing depends on how long the topic
   keeps them.
2. Hours that are over are added up into a second table, once (usage_hours.py).
3. With a price book they are billed into a third (usage_billing.py), and invoices are written from that.

Each step only adds what is missing to its table and can be killed anywhere: the next run goes on from the tables.
One that finds nothing new changes no byte of tables and reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import SparkSession

from penstock.disk.local import LocalDisk
from penstock.pipelines.archive import archive
from penstock.pipelines.core.closing import final_until
from penstock.pipelines.core.price_book import PriceBook
from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import Told
from penstock.pipelines.topic_stream import TopicRun
from penstock.pipelines.usage_archive import EVENT, UsageArchive
from penstock.pipelines.usage_billing import UsageBilling
from penstock.pipelines.usage_hours import Closed, UsageHours
from penstock.pipelines.usage_lives import Checked, check_lives
from penstock.pipelines.usage_reports import UsageReports
from penstock.units import HOUR_MS

TOPIC = "__usage"


class UsageTables(NamedTuple):
    events: Target
    hours: Target
    billing: Target

    @classmethod
    def beside(cls, target: Target) -> UsageTables:
        """Named after one that there is not: of /lake/usage they are /lake/usage_events and so on."""
        return cls(*(Target(target.kind, f"{target.where}_{name}") for name in cls._fields))


@dataclass(frozen=True, kw_only=True)
class UsageRun:
    # Whose target is the table of events.
    events: TopicRun
    tables: UsageTables
    # A directory.
    reports: str
    # None: nothing is billed.
    book: PriceBook | None
    # How late events may come before what they say is a correction.
    late_ms: int


class UsageDone(NamedTuple):
    closed: Closed
    # The first hour that is not final, since 1970; None: there has been nothing.
    open_hour: int | None
    billed_rows: int
    months: Sequence[str]
    checked: Checked


def usage(session: SparkSession, run: UsageRun, now_ms: int, told: Told) -> UsageDone:
    """Once, up to what is in the topic now."""
    archive(session, run.events, EVENT, told)
    hours = UsageHours(session, run.tables.hours)
    closed = hours.close(run.tables.events, run.late_ms, now_ms)
    ledger = hours.ledger()
    open_hour = final_until(ledger)
    reports = UsageReports(run.reports, LocalDisk())
    checked = check_lives(UsageArchive(session, run.tables.events), (open_hour or 0) * HOUR_MS)
    reports.write_gaps(checked.gaps)
    if run.book is None or ledger is None or open_hour is None:
        return UsageDone(closed, open_hour, 0, (), checked)
    billing = UsageBilling(session, run.tables.billing)
    billed = billing.bill(hours, ledger, run.book)
    months = list(reports.write_invoices(billing.invoices(open_hour)))
    return UsageDone(closed, open_hour, billed, months, checked)
