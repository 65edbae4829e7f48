"""Looks for a finding: `python -m tests.simulation.hunt FIRST COUNT` prints the first one as JSON and its seed.

Run with another `penstock` on the path it tells whether the simulation sees what is wrong with that.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from tests.simulation.history import Finding
from tests.simulation.world import World

import penstock


class Found(NamedTuple):
    seed: int
    text: str


def hunt(first: int, count: int) -> Found | None:
    for seed in range(first, first + count):
        try:
            World(seed).run()
        except Finding as finding:
            return Found(seed, str(finding))
    return None


if __name__ == "__main__":
    found = hunt(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps({"of": penstock.__file__, "found": None if found is None else found._asdict()}))
