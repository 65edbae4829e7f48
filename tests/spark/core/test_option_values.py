from __future__ import annotations

import pytest

from penstock.spark.core.option_values import OptionError, OptionValues


def values(**options: str) -> OptionValues:
    return OptionValues(options, ["startingOffsets", "minPartitions", "flag", "delay"], {"topic": "not here"})


def test_names_count_without_their_case() -> None:
    read = values(STARTINGOFFSETS="earliest")
    assert "startingoffsets" in read
    assert read.text("startingOffsets") == "earliest"
    assert read.text("minPartitions") is None


def test_an_unknown_option_is_an_error_that_names_near_ones() -> None:
    with pytest.raises(OptionError, match=r"Unknown option 'startingOffest'\. Did you mean 'startingOffsets'\?"):
        values(startingOffest="earliest")
    with pytest.raises(OptionError, match="Unknown option 'zzz'"):
        values(zzz="1")
    with pytest.raises(OptionError, match="not here"):
        values(Topic="t")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "x", "٣", str(2**63)])
def test_a_number_that_is_none(text: str) -> None:
    with pytest.raises(OptionError, match="minPartitions must be positive"):
        values(minPartitions=text).integer("minPartitions", at_least=1)


def test_numbers_and_booleans() -> None:
    assert values(minPartitions=" 12 ").integer("minPartitions", at_least=1) == 12
    assert values(flag="TRUE").boolean("flag", default=False)
    assert values().boolean("flag", default=True)
    with pytest.raises(OptionError, match="flag must be true or false, got 'yes'"):
        values(flag="yes").boolean("flag", default=False)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500", 500), ("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2MIN", 120_000), ("1h", 3600_000)],
)
def test_durations(text: str, ms: int) -> None:
    assert values(delay=text).duration_ms("delay", default_ms=7) == ms


@pytest.mark.parametrize("text", ["", "-1s", "1.5s", "1 s", "soon"])
def test_a_duration_that_is_none(text: str) -> None:
    with pytest.raises(OptionError, match="delay must be a time such as"):
        values(delay=text).duration_ms("delay", default_ms=7)
