"""The simulation sees bugs: each one that is planted into a copy of the product is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import scale
from tests.simulation.planted import copy_product, hunt_planted, names, plant

# Found within a few seeds; the others take longer.
QUICK = ("acknowledge-before-replication", "acknowledge-before-sync", "joins-below-epoch-start")
SEEDS = 40
# As many as the simulation itself is run with; most are found within a hundred.
TORTURE_SEEDS = 10_000


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    assert hunt_planted(name, tmp_path, 0, SEEDS) is not None


def test_every_bug_can_still_be_planted(tmp_path: Path) -> None:
    copy_product(tmp_path)
    for name in names("**/*"):
        plant(name, tmp_path, "--check")


@pytest.mark.torture("planted")
@pytest.mark.parametrize("name", names())
def test_every_planted_bug_is_found(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    first = scale.seed() % 1_000_000
    found = hunt_planted(name, tmp_path, first, TORTURE_SEEDS)
    assert found is not None
    record_property("seeds", found.seed - first + 1)
    record_property("finding", found.text)
