"""How commands answer: a table for people, JSON for programs; results on stdout, all else on stderr (failure.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class Output(Enum):
    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text for people, json for programs.")]


def show_rows(output: Output, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A table with `columns`, or a JSON array with all fields of the rows."""
    if output is Output.JSON:
        show_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = bool(rows) and all(isinstance(row.get(column), int) for row in rows)
        table.add_column(column.replace("_", " ").upper(), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    _console().print(table)


def show_fields(output: Output, fields: Mapping[str, Any]) -> None:
    """One thing with its fields, or a JSON object."""
    if output is Output.JSON:
        show_json(fields)
        return
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        _console().print(f"{name.replace('_', ' '):{width}}  {_cell(value)}", markup=False, highlight=False)


def show_json(content: object) -> None:
    json.dump(content, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def _console() -> Console:
    # A pipe has no width: fold nothing there, so that grep and awk see whole lines.
    return Console(width=None if sys.stdout.isatty() else 1000, soft_wrap=False, highlight=False, markup=False)
