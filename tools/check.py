"""What every change must pass: lint, types, layers, tidy, generated docs; then the tests. Prints time per step.

All static steps run even if one fails, so that one run shows everything; the tests run only after clean ones.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


class Step(NamedTuple):
    name: str
    command: list[str]


STATIC = [
    Step("lint", [str(BIN / "ruff"), "check"]),
    Step("format", [str(BIN / "ruff"), "format", "--check"]),
    Step("types", [str(BIN / "mypy")]),
    Step("layers", [str(BIN / "lint-imports"), "--no-cache"]),
    Step("tidy", [sys.executable, "-m", "tools.tidy"]),
    Step("docs", [sys.executable, "-m", "tools.generate_docs", "--check"]),
]
TESTS = Step("tests", [sys.executable, "-m", "tools.test"])


class Outcome(NamedTuple):
    name: str
    passed: bool
    seconds: float


def run(step: Step) -> Outcome:
    print(f"== {step.name}", flush=True)
    start = time.monotonic()
    code = subprocess.run(step.command, cwd=ROOT, check=False).returncode
    return Outcome(step.name, code == 0, time.monotonic() - start)


def main() -> int:
    outcomes = [run(step) for step in STATIC]
    if all(outcome.passed for outcome in outcomes):
        outcomes.append(run(TESTS))
    else:
        print("== tests: not run, because a static step failed")
    print("\n== summary")
    for outcome in outcomes:
        print(f"{outcome.seconds:8.1f} s  {'ok' if outcome.passed else 'FAILED':7} {outcome.name}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
