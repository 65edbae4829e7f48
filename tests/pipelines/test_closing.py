"""Which hours are final, and that every event is counted once, whenever it comes and however often."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.core.closing import (
    HOURS,
    Closing,
    Seen,
    final_until,
    hour_of,
    is_closed,
    month_of,
    next_closing,
    subtracted,
)
from penstock.pipelines.core.ledger import Ledger, Range, settled
from penstock.units import HOUR_MS, MINUTE_MS


def test_an_hour_is_final_when_an_event_is_later_than_its_end_by_what_may_be_late() -> None:
    late_ms = 10 * MINUTE_MS
    before = next_closing(None, (), Seen(HOUR_MS, 5 * HOUR_MS + late_ms - 1, None), late_ms)
    assert (before.number, before.open_hour, before.end_hour) == (0, 0, 4)
    after = next_closing(None, (), Seen(HOUR_MS, 5 * HOUR_MS + late_ms, None), late_ms)
    assert (after.open_hour, after.end_hour) == (0, 5)
    assert after.ranges == (Range(HOURS, 0, 0, 5),)


def test_what_was_final_stays_so_whatever_may_be_late() -> None:
    known = Ledger(3, "a", (Range(HOURS, 0, 2, 9),))
    closing = next_closing(known, (), Seen(0, 9 * HOUR_MS, None), 5 * HOUR_MS)
    assert (closing.number, closing.first_hour, closing.open_hour, closing.end_hour) == (4, 9, 9, 9)
    late = next_closing(known, (), Seen(0, 12 * HOUR_MS, 4 * HOUR_MS), 0)
    assert (late.first_hour, late.open_hour, late.end_hour) == (3, 9, 12)


def test_an_event_that_ends_with_the_hour_is_of_it() -> None:
    assert [hour_of(to_ms) for to_ms in (HOUR_MS - 1, HOUR_MS, HOUR_MS + 1)] == [0, 0, 1]


def test_months() -> None:
    first = 20 * 365 * 24 + 5 * 24
    assert [month_of(hour) for hour in (-1, 0, first - 1, first)] == ["1969-12", "1970-01", "1989-12", "1990-01"]
    assert is_closed("1989-12", first)
    assert not is_closed("1989-12", first - 1)
    assert not is_closed("1990-01", first)


ranges = st.lists(
    st.builds(
        lambda partition, start, size: Range("t", partition, start, start + size),
        st.integers(0, 2),
        st.integers(0, 30),
        st.integers(1, 10),
    ),
    max_size=6,
)


@given(ranges, ranges)
def test_offsets_without_others(some: list[Range], others: list[Range]) -> None:
    apart = [found for place, found in enumerate(some) if not any(_meet(found, other) for other in some[:place])]
    assert _offsets(subtracted(apart, others)) == sorted(set(_offsets(apart)) - set(_offsets(others)))


def _meet(one: Range, other: Range) -> bool:
    return one.partition == other.partition and one.start < other.end and other.start < one.end


def _offsets(found: list[Range] | tuple[Range, ...]) -> list[tuple[int, int]]:
    return sorted((part.partition, offset) for part in found for offset in range(part.start, part.end))


class Event(NamedTuple):
    """The number is its key; the copies of one are equal, but for where they are."""

    number: int
    to_ms: int
    partition: int


# Of what there is to happen: records arrive, or somebody closes, allowing for some lateness.
events = st.builds(
    lambda number, spread, partition: Event(number, number * HOUR_MS // 3 + 1 + (number * 37 + spread) % 3, partition),
    st.integers(0, 30),
    st.just(0),
    st.integers(0, 2),
)
steps = st.lists(st.one_of(st.lists(events, min_size=1, max_size=8), st.integers(0, 3)), max_size=25)


@given(steps)
def test_every_event_is_counted_once(happens: list[list[Event] | int]) -> None:
    """The rule of usage_hours.py, said plainly, over a log with doubles, late events and holes in time."""
    log: dict[int, list[Event]] = {0: [], 1: [], 2: []}
    ledger: Ledger | None = None
    counted: list[int] = []
    corrections: list[int] = []
    for step in happens:
        if isinstance(step, list):
            for event in step:
                log[event.partition].append(event)
            continue
        closing = _closing(log, ledger, step * HOUR_MS)
        if closing is None:
            continue
        new = _new(log, closing)
        counted += [event.number for event in new]
        corrections += [event.number for event in new if hour_of(event.to_ms) < closing.open_hour]
        ledger = settled(ledger, closing.number, "a", closing.ranges)
    assert len(counted) == len(set(counted))
    if (open_hour := final_until(ledger)) is not None:
        known = {(part.partition, offset) for part in (ledger.ranges if ledger else ()) for offset in _in(part)}
        archived = [event for place, found in log.items() for at, event in enumerate(found) if (place, at) in known]
        final = {event.number for event in archived if hour_of(event.to_ms) < open_hour}
        assert set(counted) == final
    assert set(corrections) <= set(counted)


def _in(part: Range) -> range:
    return range(part.start, part.end) if part.topic != HOURS else range(0)


def _closing(log: dict[int, list[Event]], ledger: Ledger | None, late_ms: int) -> Closing | None:
    archived = [Range("__usage", place, 0, len(found)) for place, found in log.items() if found]
    added = subtracted(archived, ledger.ranges if ledger is not None else ())
    ends = [event.to_ms for found in log.values() for event in found]
    if not ends:
        return None
    open_ms = (final_until(ledger) or 0) * HOUR_MS if ledger is not None else -1
    late = [log[part.partition][offset].to_ms for part in added for offset in _in(part)]
    first_late = min((to_ms for to_ms in late if to_ms <= open_ms), default=None)
    return next_closing(ledger, added, Seen(min(ends), max(ends), first_late), late_ms)


def _new(log: dict[int, list[Event]], closing: Closing) -> list[Event]:
    added = {(part.partition, offset) for part in closing.added for offset in range(part.start, part.end)}
    rows = [
        (event, event.to_ms <= closing.open_hour * HOUR_MS and (place, at) not in added)
        for place, found in log.items()
        for at, event in enumerate(found)
        if closing.first_hour * HOUR_MS < event.to_ms <= closing.end_hour * HOUR_MS
    ]
    seen = {event.number for event, is_counted in rows if is_counted}
    new = []
    for event, is_counted in rows:
        if not is_counted and event.number not in seen:
            seen.add(event.number)
            new.append(event)
    return new
