"""A run as it stays: results/NAME.json, .md and .svg."""

from __future__ import annotations

from pathlib import Path

import msgspec
from benchmarks.results import Results
from benchmarks.targets import BROKERS, Comparison
from rich.console import Console

from benchmarks import plot, report

_DIRECTORY = Path(__file__).resolve().parent / "results"


def write(results: Results, name: str, console: Console, comparison: Comparison = BROKERS) -> None:
    _DIRECTORY.mkdir(exist_ok=True)
    texts = {
        "json": msgspec.json.format(msgspec.json.encode(results), indent=1).decode() + "\n",
        "md": report.markdown(results, comparison),
        "svg": plot.svg(results, comparison),
    }
    for ending, text in texts.items():
        (_DIRECTORY / f"{name}.{ending}").write_text(text)
    console.print(f"written: benchmarks/results/{name}.json, .md, .svg")
