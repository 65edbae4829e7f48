from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.core.position import Anchor, Position


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Position(Anchor.BEGINNING)),
        ("earliest", Position(Anchor.BEGINNING)),
        ("end", Position(Anchor.END)),
        ("latest", Position(Anchor.END)),
        ("17", Position(Anchor.OFFSET, 17)),
        ("-5", Position(Anchor.BEFORE_END, 5)),
        ("@1700000000000", Position(Anchor.TIME, 1700000000000)),
        ("2023-11-14T22:13:20Z", Position(Anchor.TIME, 1700000000000)),
        ("2023-11-14T22:13:20", Position(Anchor.TIME, 1700000000000)),
        ("2023-11-14T23:13:20.5+01:00", Position(Anchor.TIME, 1700000000500)),
        ("2023-11-14", Position(Anchor.TIME, 1699920000000)),
    ],
)
def test_positions_that_people_write(text: str, position: Position) -> None:
    assert Position.parse(text) == position


@pytest.mark.parametrize("text", ["", "begin", "1.5", "--1", "@-1", "@", "yesterday", "٣"])
def test_what_is_no_position_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset"):
        Position.parse(text)


@given(st.sampled_from(list(Anchor)), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_position_never_leaves_the_log(anchor: Anchor, number: int, start: int, length: int) -> None:
    assert start <= Position(anchor, number).within(start, start + length) <= start + length


def test_positions_within_a_log() -> None:
    def at(text: str) -> int:
        return Position.parse(text).within(10, 20)

    assert [at(text) for text in ("beginning", "end", "5", "15", "25", "-3", "-30")] == [10, 20, 10, 15, 20, 17, 10]
