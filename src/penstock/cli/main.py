"""`penstock`: the root of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

import penstock
from penstock.cli import group, log, topic
from penstock.cli.consume import consume
from penstock.cli.produce import produce
from penstock.cli.serve import serve

app = typer.Typer(name="penstock", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Penstock: one replicated log that speaks the Kafka protocol."""


app.command(epilog="Example: penstock serve --data-dir /var/lib/penstock --set retention.ms=86400000")(serve)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(log.app, name="log")
app.command(epilog="Example: penstock consume orders --from beginning --exit-at-end --output json")(consume)
app.command(epilog="Example: echo 'a:1' | penstock produce orders --key-separator :")(produce)
