"""A pytest plugin: how long each area of the tests took, so that a slow one is seen before it hurts."""

from __future__ import annotations

from collections import defaultdict

import pytest


class Areas:
    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        area = area_of(report.nodeid)
        self._seconds[area] += report.duration
        self._tests[area] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("time per area")
        for area, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{seconds:8.1f} s  {self._tests[area]:5} tests  {area}")


def area_of(node_id: str) -> str:
    """tests/storage/test_log.py::test_x belongs to storage."""
    parts = node_id.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else parts[-1]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Areas(), "penstock-areas")
