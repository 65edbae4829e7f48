"""What was seen to have left the page cache is not known any more, nor what may have been read along with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.core.known_bytes import MOST_RANGES, KnownBytes

UNIT = 1000
PLACES = st.integers(0, 30)
SPANS = st.tuples(PLACES, st.integers(1, 9))


@given(st.lists(st.tuples(st.sampled_from(["checked", "write", "left", "doubt"]), SPANS), max_size=12), SPANS)
def test_known_is_what_was_written_or_checked_and_did_not_leave(
    events: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    known, model = KnownBytes(), set[int]()
    for event, (place, length) in events:
        if event == "checked":
            known.checked(place * UNIT, length * UNIT)
            model.update(range(place, place + length))
        elif event == "write":
            known.write_from(place * UNIT)
            model.update(range(place, 100))
        elif event == "left":
            known.left_the_cache(place * UNIT, (place + length) * UNIT)
            model.difference_update(range(place, place + length))
        else:
            known.doubt()
            assert not known.holds(place * UNIT, 1)
            model.clear()
    place, length = asked
    expected = set(range(place, place + length)) <= model
    assert known.holds(place * UNIT, length * UNIT) is expected
    assert known.holds(place * UNIT, 1) is (place in model)
    overlaps = known.within(place * UNIT, (place + length) * UNIT)
    assert sum(end - start for start, end in overlaps) == UNIT * len(model & set(range(place, place + length)))


def test_nothing_is_added_to_what_was_not_read() -> None:
    known = KnownBytes()
    known.checked(10, 0)
    assert not known.holds(10, 1)


def test_of_many_ranges_some_are_forgotten() -> None:
    known = KnownBytes()
    for number in range(3 * MOST_RANGES):
        known.checked(number * UNIT, 5)
    assert sum(known.holds(number * UNIT, 5) for number in range(3 * MOST_RANGES)) == MOST_RANGES
