"""`penstock`: the root of the command line. Each command is the `app` of the module with its name."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import penstock

COMMANDS = ("serve", "dev-cluster", "cluster", "topic", "group", "transaction", "log", "consume", "produce", "pipeline")


class Commands(TyperGroup):
    """Loads a command when it is asked for: a node starts sooner and smaller without what the others need."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(f"penstock.cli.{cmd_name.replace('-', '_')}").app)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="penstock", cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


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
