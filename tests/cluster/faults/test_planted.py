"""The run of transactions sees bugs: each one that is planted into a copy of the product is found for what it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import scale
from tests.cluster.faults.running import KEPT, run_scenario
from tests.cluster.faults.test_exactly_once import BRISK, MODULE
from tests.simulation.planted import copy_product, names, plant

FOLDER = "transactions"
# What each of them does to those who use it.
ANOMALIES = {
    "one-partition-aborts": ("committed value lost", "torn transaction"),
    "aborted-offsets-are-committed": ("input lost",),
    "aborted-not-remembered": ("aborted value read",),
    "abort-shows-values": ("input done twice",),
    "stable-offset-is-the-watermark": ("precommitted value read",),
}


def test_of_every_planted_bug_it_is_known_what_it_does() -> None:
    assert sorted(f"{FOLDER}/{name}" for name in ANOMALIES) == names(f"{FOLDER}/*")


@pytest.mark.torture("planted")
@pytest.mark.parametrize("name", ANOMALIES)
def test_a_planted_bug_is_found(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    copy = copy_product(tmp_path)
    plant(f"{FOLDER}/{name}", tmp_path)
    options = ["--seed", str(scale.seed()), "--faults", "10", "--only-workers", "--transaction-ms", "4000", *BRISK]
    seen = run_scenario(f"planted-{name}", MODULE, *options, timeout_s=600, product=copy)
    record_property("findings", [text[:300] for text in seen["findings"][:3]])
    for anomaly in ANOMALIES[name]:
        assert any(text.startswith(anomaly) for text in seen["findings"]), seen["findings"]
    shutil.rmtree(KEPT / f"planted-{name}")
