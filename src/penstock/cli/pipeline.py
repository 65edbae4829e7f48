"""`penstock pipeline`: data leaves the queue and comes back, by Spark; and what its tables hold."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from penstock.cli.failure import fail

_MODULES = {"run": "pipeline_run", "ranges": "pipeline_tables", "compact": "pipeline_tables"}


class PipelineCommands(TyperGroup):
    """Loads them when they are asked for: Spark takes a while to import, and need not be installed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _MODULES:
            return None
        try:
            module = import_module(f"penstock.cli.{_MODULES[cmd_name]}")
        except ModuleNotFoundError as missing:
            fail(
                f"pipelines need {str(missing.name).partition('.')[0]}, which is not installed",
                do="install: pip install 'penstock[spark]'",
            )
        group: Any = typer.main.get_command(module.app)
        if cmd_name == "run":
            group.name = cmd_name
            return group
        return group.get_command(ctx, cmd_name)


app = typer.Typer(cls=PipelineCommands, add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def pipeline() -> None:
    """Move data between topics and tables, exactly once."""
