"""A run as people read it: both sides and their ratio, in Markdown for the repository and on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.ceilings import CEILING_WORDS
from benchmarks.results import Results
from benchmarks.summary import Ratio, Spread
from benchmarks.targets import BROKERS, OURS, THEIRS, Comparison, Verdict, verdicts
from rich.console import Console
from rich.table import Table

_TARGET_COLUMNS = ("workload", "metric", "Penstock", "beside", "ratio", "target", "verdict")
# What a terminal shows; the files have every metric.
HEADLINES = (
    *("messages/s", "transactions/s", "p50 ms", "p99 ms", "p99.9 ms", "broker CPU-s/GB", "broker CPU-ms/transaction"),
    *("start to first ack s", "peak RSS MB", "rows/s", "rows/s per core", "ms/micro-batch"),
)
_STYLES = {"met": "green", "fell short": "red"}


@dataclass(frozen=True)
class Row:
    """One metric of one workload on both sides; a side that did not run has no spread."""

    durability: str
    case: str
    metric: str
    ours: Spread | None
    theirs: Spread | None
    ratio: Ratio | None

    def cells(self) -> tuple[str, ...]:
        return (self.case, self.metric, spread_words(self.ours), spread_words(self.theirs), ratio_words(self.ratio))


def rows(results: Results) -> Iterator[Row]:
    for durability, case in results.cases():
        metrics: dict[str, None] = {}
        for measurement in results.measurements:
            if (measurement.durability, measurement.case) == (durability, case):
                metrics.update(dict.fromkeys(measurement.metrics))
        for metric in metrics:
            ours = results.values(durability, case, OURS, metric)
            theirs = results.values(durability, case, THEIRS, metric)
            spreads = [Spread.of(values) if values else None for values in (ours, theirs)]
            yield Row(durability, case, metric, spreads[0], spreads[1], Ratio.of(ours, theirs))


def markdown(results: Results, comparison: Comparison = BROKERS) -> str:
    lines = [f"# {comparison.title}", "", f"Made by `{results.command}` on {results.date}.", ""]
    lines += [f"- {name}: {value}" for name, value in results.machine.items()]
    lines += [
        "",
        "Values are medians of the rounds, with the lowest and highest round in brackets; the ratio is of the",
    ]
    lines += ["medians, with the lowest and highest of the rounds measured side by side.", "", *results.remarks]
    lines += ["", "## Ceilings", ""]
    lines += _markdown_table(_ceiling_columns(results), _ceiling_cells(results))
    lines += ["", "## Targets", ""]
    lines += _markdown_table(_TARGET_COLUMNS, _all_verdict_cells(results, comparison))
    every_row = list(rows(results))
    for durability, settings in results.settings.items():
        cells = [row.cells() for row in every_row if row.durability == durability]
        if cells:
            words = "; ".join(f"{peer}: {setting}" for peer, setting in settings.items())
            lines += ["", f"## Durability `{durability}`", "", words, "", *_markdown_table(_columns(comparison), cells)]
    if results.failures:
        lines += ["", "## Not measured", "", *(f"- {' '.join(failure.split())}" for failure in results.failures)]
    return "\n".join(lines) + "\n"


def show(results: Results, console: Console, comparison: Comparison = BROKERS) -> None:
    every_row = [row for row in rows(results) if row.metric in HEADLINES]
    for durability, settings in results.settings.items():
        words = "; ".join(f"{peer}: {setting}" for peer, setting in settings.items())
        table = _rich_table(f"{durability} ({words})", _columns(comparison))
        for row in every_row:
            if row.durability == durability:
                table.add_row(*row.cells())
        if table.row_count:
            console.print(table)
    table = _rich_table("ceilings", _ceiling_columns(results))
    for cells in _ceiling_cells(results):
        table.add_row(*cells)
    console.print(table)
    table = _rich_table("targets", _TARGET_COLUMNS)
    for verdict in verdicts(results, comparison.targets):
        if verdict.ratio is not None:
            table.add_row(*_verdict_cells(verdict), style=_STYLES[verdict.words()])
    if table.row_count:
        console.print(table)
    for remark in results.remarks:
        console.print(remark, style="yellow", markup=False)
    for failure in results.failures:
        console.print(f"not measured: {failure}", style="yellow", markup=False)


def spread_words(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if spread.rounds == 1:
        return number_words(spread.median)
    return f"{number_words(spread.median)} [{number_words(spread.low)}, {number_words(spread.high)}]"


def ratio_words(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio.value:.2f}x" + (f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.ours.rounds > 1 else "")


def number_words(value: float) -> str:
    """Three digits that matter; thousands grouped."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _columns(comparison: Comparison) -> tuple[str, ...]:
    return ("workload", "metric", "Penstock", comparison.theirs, "ratio")


def _all_verdict_cells(results: Results, comparison: Comparison) -> list[tuple[str, ...]]:
    return [_verdict_cells(verdict) for verdict in verdicts(results, comparison.targets)]


def _verdict_cells(verdict: Verdict) -> tuple[str, ...]:
    ratio, target = verdict.ratio, verdict.target
    ours = spread_words(ratio.ours if ratio else None)
    theirs = f"{verdict.other_side}: {spread_words(ratio.theirs if ratio else None)}"
    case = f"{target.durability}/{verdict.case}"
    return (case, target.metric, ours, theirs, ratio_words(ratio), target.words(), verdict.words())


def _ceiling_columns(results: Results) -> tuple[str, ...]:
    return ("ceiling", *results.ceilings)


def _ceiling_cells(results: Results) -> list[tuple[str, ...]]:
    sides = results.ceilings.values()
    return [(words, *(number_words(getattr(side, name)) for side in sides)) for name, words in CEILING_WORDS.items()]


def _markdown_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    rule = "|".join("---" for _ in columns)
    return [f"| {' | '.join(columns)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in cells)]


def _rich_table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
