"""A cluster under faults, with the product's own decisions: nothing acknowledged is lost, doubled or reordered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from tests import scale
from tests.simulation.history import Finding
from tests.simulation.world import World

SEEDS = 200
TORTURE_SEEDS = 10_000


def run(seeds: Iterable[int]) -> Counter[str]:
    """What they saw in all. Findings are told together, each with the seed that repeats it."""
    total: Counter[str] = Counter()
    findings: list[str] = []
    for seed in seeds:
        try:
            saw = World(seed).run()
        except Finding as finding:
            findings.append(f"seed {seed}: {finding}")
            continue
        total["seeds"] += 1
        total["faults"] += saw.faults.total()
        total["runs with losses that the rules allow"] += saw.lost > 0
        for name, count in saw._asdict().items():
            if isinstance(count, int):
                total[name] += count
        total.update({f"faults: {name}": count for name, count in saw.faults.items()})
    assert not findings, "\n".join(findings)
    return total


def test_nothing_is_lost() -> None:
    total = run(range(SEEDS))
    # It is worth something only if there was something to lose.
    assert total["acked"] > 100 * SEEDS
    assert total["elections"] > 3 * SEEDS
    assert total["faults"] > 8 * SEEDS


def test_a_seed_repeats_its_run() -> None:
    assert World(5).run() == World(5).run()


@pytest.mark.torture("simulation")
def test_nothing_is_lost_in_thousands_of_runs(record_property: Callable[[str, object], None]) -> None:
    first = scale.seed() * TORTURE_SEEDS
    for name, count in sorted(run(range(first, first + TORTURE_SEEDS)).items()):
        record_property(name, count)
    record_property("first seed", first)
