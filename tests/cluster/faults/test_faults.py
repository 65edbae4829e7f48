"""Faults under load: nothing acknowledged is lost, doubled or reordered, and nobody sees two truths."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests import scale
from tests.cluster.faults.running import run_scenario

Record = Callable[[str, object], None]
MODULE = "tests.cluster.faults.scenario"
MOST_SECONDS_A_FAULT = 40
# Of each of two runs, which take so long together.
FAULTS, MINUTES = 150, 40


def nothing_is_lost(name: str, record: Record, *, faults: int, brokers: int, zookeepers: int, pace: list[str]) -> None:
    options = ["--seed", str(scale.seed() + brokers), "--faults", str(faults)]
    options += ["--brokers", str(brokers), "--zookeepers", str(zookeepers), *pace]
    seen = run_scenario(name, MODULE, *options, timeout_s=300 + MOST_SECONDS_A_FAULT * faults)
    for fact, value in seen.items():
        record(f"{fact}_with_{brokers}_brokers", value)
    assert seen["findings"] == []
    assert seen["faults"] == faults


# Sessions of two seconds, so that a short run outlasts some of them.
BRISK = ["--session-ms", "2000", "--longest-hold-s", "3", "--gap-s", "0.5", "--heal-between", "0.3"]
STEADY = ["--session-ms", "6000", "--longest-hold-s", "9", "--gap-s", "1.5", "--heal-between", "0.6"]


@pytest.mark.timeout(300)
def test_eight_faults(record_property: Record) -> None:
    nothing_is_lost("eight", record_property, faults=8, brokers=3, zookeepers=1, pace=BRISK)


@pytest.mark.torture("cluster")
@pytest.mark.parametrize(("brokers", "protocol"), [(3, "classic"), (5, "consumer")])
def test_three_hundred_faults(brokers: int, protocol: str, record_property: Record) -> None:
    """In both runs together, in about forty minutes; chance has another seed in each of them."""
    pace = [*STEADY, "--protocol", protocol, "--spare"]
    faults = max(1, round(FAULTS * scale.minutes(MINUTES) / MINUTES))
    nothing_is_lost(f"cluster-{brokers}", record_property, faults=faults, brokers=brokers, zookeepers=3, pace=pace)
