"""The tests marked `torture`, by name, with a seed; writes docs/evidence/<name>.json.

    python -m tools.torture                       all of them
    python -m tools.torture kills --minutes 10    one, at a given length
    python -m tools.torture kills --seed 7        the very run that failed

A test is marked `@pytest.mark.torture("kills")`, takes seed and length from `tests.scale`, and tells what it saw
with pytest's own `record_property`: that is the evidence.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Nothing here waits for ever: the longest run is ten minutes of load and what surrounds it.
TEST_TIMEOUT_S = 2 * 60 * 60


class Evidence:
    """A pytest plugin: keeps the chosen torture tests only, and writes down what each of them saw."""

    def __init__(self, names: list[str], facts: dict[str, Any], directory: Path) -> None:
        self._names = names
        self._facts = facts
        self._directory = directory
        self._name_of: dict[str, str] = {}
        self._reports: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            if marker := item.get_closest_marker("torture"):
                self._name_of[item.nodeid] = str(marker.args[0])
        known = sorted(set(self._name_of.values()))
        if unknown := sorted(set(self._names) - set(known)):
            raise pytest.UsageError(f"no torture test is called {', '.join(unknown)}; there are: {', '.join(known)}")
        chosen = set(self._names or known)
        dropped = [item for item in items if self._name_of.get(item.nodeid) not in chosen]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if self._name_of.get(item.nodeid) in chosen]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._reports[self._name_of[report.nodeid]].append(report)

    def pytest_sessionfinish(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, reports in self._reports.items():
            content = {
                "name": name,
                "passed": not any(report.failed for report in reports),
                **self._facts,
                "command": repeat_command(name, self._facts),
                "tests": [
                    {
                        "test": report.nodeid,
                        "outcome": report.outcome,
                        "seconds": round(report.duration, 1),
                        "saw": dict(report.user_properties),
                    }
                    for report in reports
                ],
            }
            (self._directory / f"{name}.json").write_text(json.dumps(content, indent=2, default=str) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, reports in self._reports.items():
            word = "FAILED" if any(report.failed for report in reports) else "passed"
            terminalreporter.write_line(f"{word}  {name}  repeat it with: {repeat_command(name, self._facts)}")


def repeat_command(name: str, facts: dict[str, Any]) -> str:
    minutes = f" MINUTES={facts['minutes']:g}" if facts["minutes"] is not None else ""
    return f"make torture {name}{minutes} SEED={facts['seed']}"


def commit() -> str:
    answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make torture", description="The tests at larger scale.")
    parser.add_argument("names", nargs="*", help="which; all if left out")
    parser.add_argument("--minutes", type=float, help="how long each runs, where it can be chosen")
    parser.add_argument("--seed", type=int, help="of an earlier run")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(2**32)
    os.environ["TORTURE_SEED"] = str(seed)
    if chosen.minutes is not None:
        os.environ["TORTURE_MINUTES"] = str(chosen.minutes)
    facts = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "seed": seed,
        "minutes": chosen.minutes,
    }
    options = ["-m", "torture", "-s", "-ra", f"--timeout={TEST_TIMEOUT_S}", f"--hypothesis-seed={seed}"]
    return int(pytest.main([*options, "tests"], plugins=[Evidence(chosen.names, facts, ROOT / "docs" / "evidence")]))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
