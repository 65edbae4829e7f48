"""Watching replicas move until they have: a bar on a terminal, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.core.pace import Pace
from penstock.cli.failure import EXIT_INTERRUPTED, EXIT_UNREACHABLE, fail, say
from penstock.cli.operator import Operator, fail_refused, in_chunks

_LOOK_S = 0.5
# Brokers restart, and controllers are replaced, while replicas move.
_PATIENCE_S = 60.0
_GOES_ON = "what has begun to move goes on; see: penstock cluster status"


def wait_until_moved(operator: Operator, moves: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Moves that ended otherwise than planned, with the reasons."""
    columns = [BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    bar = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
    task = bar.add_task("moving", total=1.0)
    pace = Pace()
    with _interruptions_told(), bar:
        while True:
            found, undone = _progress(operator, moves)
            pace.seen(found["done_bytes"], time.monotonic())
            bar.update(task, completed=_share(found), description=_text(found, pace))
            if found["done_moves"] == found["total_moves"]:
                return undone
            time.sleep(_LOOK_S)


def wait_until_empty(operator: Operator, wish: dict[str, Any], moves: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All moves that the drain took: those of the first plan, and those of what could not go at first."""
    moved = list(moves)
    wait_until_moved(operator, moves)
    with _interruptions_told():
        while _holds_replicas(operator, wish["node_id"]):
            time.sleep(_LOOK_S)
            more = _ask_patiently(operator, "drain", **wish)["plan"]["moves"]
            wait_until_moved(operator, more)
            moved += more
    return moved


def _holds_replicas(operator: Operator, broker: int) -> bool:
    brokers = _ask_patiently(operator, "status")["status"]["brokers"]
    return any(row["node_id"] == broker and row["replicas"] for row in brokers)


@contextmanager
def _interruptions_told() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(_GOES_ON)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _ask_patiently(operator: Operator, what: str, **fields: Any) -> dict[str, Any]:
    """While there is no answer, asks again for a while."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            reply = operator.ask_once(what, **fields)
        except OSError as error:
            if time.monotonic() > deadline_s:
                fail(f"no node answers any more: {error}", do=_GOES_ON, code=EXIT_UNREACHABLE)
            time.sleep(_LOOK_S)
            operator.reach_another()
            continue
        if reply.get("problem"):
            fail_refused(reply)
        return reply


def _progress(operator: Operator, moves: Sequence[dict[str, Any]]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    total = {"done_bytes": 0, "total_bytes": 0, "done_moves": 0, "total_moves": 0}
    undone: list[dict[str, Any]] = []
    for chunk in in_chunks(moves):
        reply = _ask_patiently(operator, "progress", moves=chunk)
        undone += reply.get("refused", [])
        for name in total:
            total[name] += reply["progress"][name]
    return total, undone


def _share(found: dict[str, int]) -> float:
    by = "bytes" if found["total_bytes"] else "moves"
    return found[f"done_{by}"] / (found[f"total_{by}"] or 1)


def _text(found: dict[str, int], pace: Pace) -> str:
    moves = f"{found['done_moves']:,} of {found['total_moves']:,} partitions"
    copied = f"{found['done_bytes'] / 1e6:,.1f} of {found['total_bytes'] / 1e6:,.1f} MB"
    left = found["total_bytes"] - found["done_bytes"]
    return ", ".join(part for part in (moves, copied, pace.text(left)) if part)
