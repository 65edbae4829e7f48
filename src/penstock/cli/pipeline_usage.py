"""`penstock pipeline run usage`: who has used how much, and what it costs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.connection import DEFAULT_BOOTSTRAP, BootstrapOption
from penstock.cli.failure import EXIT_INTERRUPTED, fail
from penstock.cli.output import Output, OutputOption, show_fields
from penstock.cli.pipeline_options import (
    CheckpointOption,
    ConfOption,
    ContinuousOption,
    EveryOption,
    FromOption,
    GroupOption,
    MasterOption,
    SetOption,
    ToOption,
    assignments,
    starts_of,
    told,
)
from penstock.cli.progress import Meter
from penstock.clock import SystemClock
from penstock.pipelines.core.price_book import PriceBook
from penstock.pipelines.core.target import Kind, Target
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.session import spark_session
from penstock.pipelines.topic_stream import TopicRun
from penstock.pipelines.usage import TOPIC, UsageDone, UsageRun, UsageTables, usage
from penstock.units import MINUTE_MS

EXAMPLE = "Example: penstock pipeline run usage --to parquet:/lake/usage --prices prices.toml"

_NO_USAGE = "it is made with the first usage that is written down: see usage.emit.interval.ms in docs/usage.md"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def run_usage(
    to: ToOption,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A price book, as examples/price-book.toml. No bills without.")
    ] = None,
    reports: Annotated[
        str | None, typer.Option(metavar="DIR", help="For invoices and gaps. Beside the tables if left out.")
    ] = None,
    late: Annotated[
        float, typer.Option(min=0, metavar="MINUTES", help="How late events may come before an hour is final.")
    ] = 60.0,
    begin: FromOption = "beginning",
    checkpoint: CheckpointOption = None,
    continuous: ContinuousOption = False,
    every: EveryOption = 600.0,
    group: GroupOption = None,
    options: SetOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Add up who has used how much by the hour, and with a price book write invoices."""
    with told():
        target = Target.parse(to)
        tables = UsageTables.beside(target)
        run = UsageRun(
            events=TopicRun(
                bootstrap=bootstrap,
                topic=TOPIC,
                target=tables.events,
                starts=starts_of(bootstrap, TOPIC, begin, _NO_USAGE),
                checkpoint=checkpoint,
                group=group,
                options=assignments("--option", options),
            ),
            tables=tables,
            reports=reports or _reports_beside(target),
            book=PriceBook.parse(prices.read_bytes()) if prices is not None else None,
            late_ms=round(late * MINUTE_MS),
        )
        summary = _Summary()
        clock = SystemClock()
        with (
            Meter("archived") as meter,
            spark_session("usage", master, assignments("--conf", conf)) as session,
        ):

            def say_batch(report: BatchReport) -> None:
                meter.add(report.rows + report.unreadable, report.size_bytes)

            try:
                summary.add(usage(session, run, clock.now_ms(), say_batch))
                while continuous:
                    time.sleep(every)
                    summary.add(usage(session, run, clock.now_ms(), say_batch))
            except KeyboardInterrupt:
                summary.is_interrupted = True
    show_fields(output, {"events_archived": meter.records, **summary.fields(), "reports": run.reports})
    if summary.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _reports_beside(target: Target) -> str:
    if target.kind is Kind.ICEBERG:
        fail("an Iceberg table has no place for reports", do="say --reports DIRECTORY")
    return f"{target.where}_reports"


class _Summary:
    """Of all passes of one command."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self._hours = self._rows = self._corrections = self._billed = 0
        self._last: UsageDone | None = None

    def add(self, done: UsageDone) -> None:
        self._hours += done.closed.hours
        self._rows += done.closed.rows
        self._corrections += done.closed.corrections
        self._billed += done.billed_rows
        self._last = done

    def fields(self) -> dict[str, Any]:
        last = self._last
        open_hour = last.open_hour if last is not None else None
        return {
            "hours_closed": self._hours,
            "rows": self._rows,
            "corrections": self._corrections,
            "rows_billed": self._billed,
            "open_since": None if open_hour is None else (_EPOCH + timedelta(hours=open_hour)).isoformat(),
            "invoices": [] if last is None else list(last.months),
            "doubles": 0 if last is None else last.checked.doubles,
            "gaps": 0 if last is None else len(last.checked.gaps),
        }
