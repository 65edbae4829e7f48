"""How commands fail, and what they say beside their answer: on stderr, in words that tell what to do."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130


def say(text: str) -> None:
    """A word for whoever watches; never part of the answer."""
    print(text, file=sys.stderr, flush=True)


def fail(text: str, *, do: str = "", code: int = EXIT_REFUSED) -> NoReturn:
    """Ends the command: what went wrong, and what to do about it."""
    say(f"error: {text}")
    if do:
        say(f"       {do}")
    raise typer.Exit(code)
