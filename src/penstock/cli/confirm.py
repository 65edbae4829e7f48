"""Asking before something that cannot be taken back, or is felt by others."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.cli.failure import fail

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def confirm(question: str, yes: bool, what: str) -> None:
    """Ends the command if the answer is no, or nobody could give one; `what` says why it is asked at all."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{what}, and there is no terminal to ask", do="add --yes")
    typer.confirm(question, abort=True, err=True)
