"""Consume, transform, produce under faults: each input has one output for readers of committed records."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests import scale
from tests.cluster.faults.running import run_scenario

Record = Callable[[str, object], None]
MODULE = "tests.cluster.faults.exactly_once"
MINUTES = 10
# More than come in that time.
MANY = 1000
# The coordinator of transactions is killed, and a worker paused: as this seed has it.
KILL_AND_PAUSE = 1441
BRISK = ["--session-ms", "2000", "--longest-hold-s", "2.5", "--gap-s", "0.3", "--heal-between", "0", "--rate", "30"]
STEADY = ["--session-ms", "6000", "--longest-hold-s", "12", "--gap-s", "1.5", "--heal-between", "0.5", "--rate", "30"]


def each_input_once(name: str, record: Record, seed: int, *options: str, timeout_s: float) -> None:
    seen = run_scenario(name, MODULE, "--seed", str(seed), *options, timeout_s=timeout_s)
    for fact, value in seen.items():
        record(fact, value)
    assert seen["findings"] == []


@pytest.mark.timeout(200)
def test_two_faults(record_property: Record) -> None:
    options = ["--faults", "2", "--zookeepers", "1", "--transaction-ms", "4000", *BRISK]
    each_input_once("exactly-once", record_property, KILL_AND_PAUSE, *options, timeout_s=180)


@pytest.mark.torture("transactions")
def test_ten_minutes_of_faults(record_property: Record) -> None:
    """Of all kinds, to brokers, coordinators, workers and ZooKeeper; transactions may take ten seconds."""
    seconds = 60 * scale.minutes(MINUTES)
    options = ["--faults", str(MANY), "--seconds", str(seconds), "--zookeepers", "3", *STEADY]
    each_input_once("transactions", record_property, scale.seed(), *options, timeout_s=seconds + 600)
