"""How long producers wait when a broker dies, halts or leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests import scale
from tests.cluster.faults.gaps import SESSION_S, STORE_LOSS, longest_gap_s
from tests.cluster.faults.running import run_scenario

# In about twenty minutes.
KILLS, HOLDS, MINUTES = 50, 5, 20
S = 1_000_000_000


def test_the_longest_gap_is_between_neighbours() -> None:
    acks = [n * S for n in (1, 2, 3, 7, 8, 20)]
    assert longest_gap_s(acks, (2 * S, 8 * S)) == 4
    assert longest_gap_s(acks, (5 * S, 7 * S)) == 4, "it began before the window"
    assert longest_gap_s(acks, (8 * S, 12 * S)) == 12, "it ended behind the window"
    assert longest_gap_s([], (2 * S, 8 * S)) == 6, "nothing at all was acknowledged"


@pytest.mark.torture("failover")
def test_gaps_are_short(record_property: Callable[[str, object], None]) -> None:
    part = scale.minutes(MINUTES) / MINUTES
    kills, holds = max(1, round(KILLS * part)), max(1, round(HOLDS * part))
    options = ("--kills", str(kills), "--holds", str(holds))
    seen = run_scenario("failover", "tests.cluster.faults.gaps", *options, timeout_s=7200)
    for fact, value in seen.items():
        record_property(fact, value)
    for role in ("leader", "follower", "controller"):
        assert seen[f"kill {role}"]["times"] == kills
        assert seen[f"kill {role}"]["median_s"] <= 1
        assert seen[f"kill {role}"]["worst_s"] <= 3
        assert seen[f"pause {role}"]["worst_s"] <= SESSION_S + 1
        if f"partition {role}" in seen:
            assert seen[f"partition {role}"]["worst_s"] <= SESSION_S + 1
    assert seen["rolling restart"]["worst_s"] <= 0.2
    # Nothing of a producer's way leads through ZooKeeper while nobody dies.
    assert seen[STORE_LOSS]["worst_s"] <= 1
    assert seen[f"{STORE_LOSS}, consumer"]["worst_s"] <= 1
    assert max(seen["controller_failover_at_1000_partitions_s"]) <= 3
