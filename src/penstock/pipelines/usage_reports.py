"""What `usage` shows to people: invoices, their chart, and what is missing, as files in a directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from penstock.disk.interface import Disk, read_whole, replace_atomically
from penstock.pipelines.core.invoice_chart import chart
from penstock.pipelines.core.invoices import Invoices, csv_text
from penstock.pipelines.core.usage_gaps import Gap

GAPS = "gaps.csv"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UsageReports:
    def __init__(self, directory: str, disk: Disk) -> None:
        self._directory = directory.rstrip("/")
        self._disk = disk
        disk.make_directory(self._directory)

    def write_gaps(self, gaps: Iterable[Gap]) -> None:
        rows = (
            (
                _cell(gap.node),
                _cell(gap.broker_epoch),
                _moment(gap.from_ms),
                _moment(gap.to_ms),
                _cell(gap.events),
                gap.why.value,
            )
            for gap in gaps
        )
        self._write(GAPS, csv_text(["node", "broker_epoch", "from", "to", "events", "why"], rows))

    def write_invoices(self, invoices: Iterable[Invoices]) -> Iterator[str]:
        """Tells the month of each when it is written."""
        for found in invoices:
            self._write(f"{found.month}.csv", found.lines_csv())
            self._write(f"{found.month}-totals.csv", found.totals_csv())
            self._write(f"{found.month}.svg", chart(found))
            yield found.month

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all; what is there already is not touched."""
        path, content = f"{self._directory}/{name}", text.encode()
        if not self._disk.exists(path) or read_whole(self._disk, path) != content:
            replace_atomically(self._disk, path, content)


def _moment(ms: int | None) -> str:
    return "" if ms is None else (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


def _cell(number: int | None) -> object:
    return "" if number is None else number
