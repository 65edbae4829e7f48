"""Which hours of usage are final, and what has come since for those that were.

An hour is final when an event is seen that ended `late_ms` after it: the watermark. Its sums are written once and
never changed. What comes later still is written too, as a correction, by the next closing; so in the end every event
is in the sums once, whenever it comes.

A closing says in its ledger which hours are final with it, and which offsets of `__usage` it knew. From that the
next one tells what is new: events of open hours, whenever they came, and those of final hours that came since.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from penstock.pipelines.core.ledger import Ledger, Range
from penstock.units import HOUR_MS

# As what the ledger of a closing knows its hours; no topic can have a space in its name.
HOURS = "final hours"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Seen(NamedTuple):
    """When events that are archived ended, of those that are not in the future."""

    first_ms: int
    last_ms: int
    # The first of those that came since the last closing, for hours that were final with it.
    first_late_ms: int | None


class Closing(NamedTuple):
    """Hours are numbered since 1970. [open_hour, end_hour) become final; those before have been."""

    number: int
    # Where something can be new.
    first_hour: int
    open_hour: int
    end_hour: int
    # Offsets that no closing knew.
    added: tuple[Range, ...]

    @property
    def ranges(self) -> tuple[Range, ...]:
        """For the ledger."""
        return (Range(HOURS, 0, self.open_hour, self.end_hour), *self.added)


def hour_of(to_ms: int) -> int:
    """The hour to which an event belongs: in which its interval ends. One that ends with the hour is still of it."""
    return (to_ms - 1) // HOUR_MS


def next_closing(known: Ledger | None, added: tuple[Range, ...], seen: Seen, late_ms: int) -> Closing:
    """It may turn out to have nothing to write. `late_ms`: how late events may come without being corrections."""
    open_hour = final_until(known)
    if open_hour is None:
        open_hour = hour_of(seen.first_ms)
    end_hour = max(open_hour, (seen.last_ms - late_ms) // HOUR_MS)
    first_hour = open_hour if seen.first_late_ms is None else hour_of(seen.first_late_ms)
    return Closing(known.batch_id + 1 if known is not None else 0, first_hour, open_hour, end_hour, added)


def final_until(known: Ledger | None) -> int | None:
    """The first hour that is not final. None: nobody has closed anything."""
    ends = [found.end for found in known.ranges if found.topic == HOURS] if known is not None else []
    return max(ends, default=None)


def subtracted(ranges: Iterable[Range], others: Iterable[Range]) -> tuple[Range, ...]:
    """Offsets of `ranges` that are in none of the others."""
    left = list(ranges)
    for other in others:
        left = [part for found in left for part in _without(found, other)]
    return tuple(sorted(left))


def _without(found: Range, other: Range) -> Iterable[Range]:
    if found[:2] != other[:2]:
        return [found]
    before = found._replace(end=min(found.end, other.start))
    behind = found._replace(start=max(found.start, other.end))
    return [part for part in (before, behind) if part.start < part.end]


def month_of(hour: int) -> str:
    """As in 2026-11, by UTC. Invoices are by the month."""
    begin = _EPOCH + timedelta(hours=hour)
    return f"{begin.year:04}-{begin.month:02}"


def is_closed(month: str, open_hour: int) -> bool:
    """Whether all its hours are final: no closing adds to its invoice any more."""
    return month < month_of(open_hour)
