"""Seed and length of a torture run, as `make torture` gives them; fixed and short in `make test`."""

from __future__ import annotations

import os


def seed() -> int:
    return int(os.environ.get("TORTURE_SEED", "1"))


def minutes(default: float) -> float:
    """How long a run with a length of its own should last."""
    return float(os.environ.get("TORTURE_MINUTES", default))


def examples(default: int) -> int:
    """How many Hypothesis examples to try: PENSTOCK_TORTURE=n multiplies them."""
    return default * int(os.environ.get("PENSTOCK_TORTURE", "1"))
