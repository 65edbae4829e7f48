"""Rates as an operator writes them, and how long something will take at one."""

from __future__ import annotations

import pytest
import typer

from penstock.cli.core.pace import Pace
from penstock.cli.rate import Rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20MB/s", 20_000_000),
        ("20 mb/s", 20_000_000),
        ("1.5M", 1_500_000),
        ("500kB/s", 500_000),
        ("1GiB/s", 2**30),
        ("4096", 4096),
        ("none", 0),
    ],
)
def test_a_rate_has_a_unit_or_is_in_bytes(text: str, rate: int) -> None:
    assert Rate.parse(text) == Rate(rate)


@pytest.mark.parametrize("text", ["", "fast", "-5MB/s", "5MB/min", "1", "0", "9" * 30, "1e6", "\u0662MB/s", "1.MB"])
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        Rate.parse(text)


def test_the_time_that_is_left_follows_the_rate_of_late() -> None:
    pace = Pace()
    assert pace.text(5) == ""
    for second in range(31):
        # Twice as fast after ten seconds.
        pace.seen(10_000_000 * second if second < 10 else 100_000_000 + 20_000_000 * (second - 10), float(second))
    assert pace.text(1_800_000_000) == "20.0 MB/s, 1 min 30 s left"
    assert pace.text(200_000_000_000) == "20.0 MB/s, 2 h 46 min left"
    assert pace.text(0) == "20.0 MB/s"


def test_nobody_knows_how_long_it_takes_while_nothing_comes() -> None:
    pace = Pace()
    pace.seen(0, 0.0)
    assert pace.text(10) == ""
    pace.seen(0, 5.0)
    assert pace.text(10) == "0.0 MB/s"
