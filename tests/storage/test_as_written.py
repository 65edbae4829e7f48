"""What was seen to have left the page cache is not trusted again, nor what may have been read along with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.core.as_written import STRETCH_BYTES, AsWritten

PLACES = st.integers(0, 20 * STRETCH_BYTES)
LENGTHS = st.integers(1, 3 * STRETCH_BYTES)


@given(
    begun=st.lists(PLACES, max_size=3),
    left=st.lists(st.tuples(PLACES, LENGTHS), max_size=3),
    asked=st.tuples(PLACES, LENGTHS),
)
def test_only_what_is_known_to_be_right_is_held_to_be(
    begun: list[int], left: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    bytes_written = AsWritten()
    for position in begun:
        bytes_written.begin(position)
    for position, length in left:
        bytes_written.left_the_cache(position, length)
    start, end = asked[0], asked[0] + asked[1]
    if bytes_written.holds(*asked):
        assert begun and start >= min(begun)
        assert all(end <= at or start >= at + length + STRETCH_BYTES for at, length in left)
    elif begun and start >= min(begun):
        # Not much more than that is given up.
        assert any(end > at - STRETCH_BYTES and start < at + length + 2 * STRETCH_BYTES for at, length in left)
    bytes_written.end()
    assert not bytes_written.holds(*asked)
