"""All tests of clients once more, as they are, against three brokers. Run by `make torture cluster-clients`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.dev_clusters import HTTP_DISTANCE, dev_cluster, free_base_port
from tests.interop.server import SETTINGS

pytestmark = pytest.mark.torture("cluster-clients")

READY_S = 15.0
See = Callable[[str, object], None]


@dataclass(frozen=True)
class Running:
    bootstrap: str
    seconds_until_ready: float


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    begun_s = time.monotonic()
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    home = ("--data-dir", str(tmp_path_factory.mktemp("cluster")), "--base-port", str(free_base_port(3)))
    with dev_cluster("--brokers", "3", *home, *settings) as (_, bootstrap):
        yield Running(bootstrap, time.monotonic() - begun_s)


def test_a_cluster_is_ready_in_time(running: Running, record_property: See) -> None:
    record_property("seconds until ready", round(running.seconds_until_ready, 1))
    assert running.seconds_until_ready < READY_S


@pytest.mark.parametrize("which", ("not torture", "torture"), ids=("python", "programs"))
def test_every_client_test_passes(running: Running, which: str, tmp_path: Path, record_property: See) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-m", which, f"--junit-xml={report}", "--timeout=300"]
    command += ["-p", "no:cacheprovider", "--ignore", __file__, os.path.dirname(__file__)]
    subprocess.run(command, env={**os.environ, "PENSTOCK_INTEROP_BOOTSTRAP": running.bootstrap}, check=False)
    outcomes, reasons = read(report)
    record_property("outcomes", dict(outcomes))
    record_property("not passed", reasons)
    record_property("health", health := [health_of(address) for address in running.bootstrap.split(",")])
    assert outcomes["passed"] > 0
    assert outcomes["failed"] == 0
    assert health == [200] * 3


def read(report: Path) -> tuple[Counter[str], dict[str, str]]:
    """How many tests ended how, and why some did not pass."""
    outcomes: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        trouble = next((row for kind in ("failure", "error", "skipped") for row in test.iter(kind)), None)
        if trouble is None:
            outcomes["passed"] += 1
            continue
        outcomes["skipped" if trouble.tag == "skipped" else "failed"] += 1
        reasons[f"{test.get('classname')}::{test.get('name')}"] = trouble.get("message", "")
    return outcomes, reasons


def health_of(broker: str) -> int:
    host, port = broker.rsplit(":", 1)
    with urllib.request.urlopen(f"http://{host}:{int(port) + HTTP_DISTANCE}/health", timeout=10) as answer:
        return int(answer.status)
