"""`penstock pipeline ranges` and `compact`: what the tables of pipelines hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from penstock.cli.failure import fail
from penstock.cli.output import Output, OutputOption, show_fields, show_rows
from penstock.errors import PenstockError
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import WANTED, Target
from penstock.pipelines.tables.opening import compact_table, open_table

app = typer.Typer(add_completion=False, rich_markup_mode=None)

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help=WANTED)]


@contextmanager
def refusals_told() -> Iterator[None]:
    try:
        yield
    except (PipelineRefused, PenstockError) as refusal:
        fail(str(refusal))
    except OSError as error:
        fail(f"the table's files cannot be used: {error}")


@app.command(epilog="Example: penstock pipeline ranges delta:/lake/orders --output json")
def ranges(table: TableArgument, output: OutputOption = Output.TEXT) -> None:
    """Show which offsets are in a table, and by which query's batch it is that far."""
    with refusals_told():
        ledgers = open_table(Target.parse(table)).ledgers()
    rows = [
        {
            "topic": found.topic,
            "partition": found.partition,
            "start": found.start,
            "end": found.end,
            "query": query,
            "batch": ledger.batch_id,
        }
        for query, ledger in sorted(ledgers.items())
        for found in ledger.ranges
    ]
    show_rows(output, rows, ["topic", "partition", "start", "end", "query", "batch"])


@app.command(epilog="Example: penstock pipeline compact parquet:/lake/orders")
def compact(table: TableArgument, output: OutputOption = Output.TEXT) -> None:
    """Merge a table's small files into larger ones."""
    with refusals_told():
        compacted = compact_table(Target.parse(table))
    show_fields(output, {"table": table, **compacted._asdict()})
