"""Faults under load: nothing acknowledged is lost, doubled or reordered, and nobody sees two truths."""

from __future__ import annotations

from collections.abc import Callable

from tests import scale
from tests.cluster.faults.running import run_scenario

Record = Callable[[str, object], None]
MODULE = "tests.cluster.faults.scenario"
MOST_SECONDS_A_FAULT = 40


def nothing_is_lost(name: str, record: Record, *, faults: int, brokers: int, zookeepers: int, pace: list[str]) -> None:
    options = ["--seed", str(scale.seed()), "--faults", str(faults)]
    options += ["--brokers", str(brokers), "--zookeepers", str(zookeepers), *pace]
    seen = run_scenario(name, MODULE, *options, timeout_s=300 + MOST_SECONDS_A_FAULT * faults)
    for fact, value in seen.items():
        record(f"{fact}_with_{brokers}_brokers", value)
    assert seen["findings"] == []
    assert seen["faults"] == faults


BRISK = ["--session-ms", "2000", "--longest-hold-s", "3", "--gap-s", "0.5", "--heal-between", "0.3"]


def test_two_faults_of_one_broker(record_property: Record) -> None:
    nothing_is_lost("one-broker", record_property, faults=2, brokers=1, zookeepers=0, pace=BRISK)
