"""Where in a topic to start, as people write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

WANTED = "beginning, end, an offset, -N (the last N), or a time like 2026-05-01T12:00:00Z or @1700000000000 (ms)"


class Anchor(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """`number` is the offset, how many before the end, or milliseconds since the epoch."""

    anchor: Anchor
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> Position:
        """ValueError with what would have been right."""
        if text in ("beginning", "earliest"):
            return cls(Anchor.BEGINNING)
        if text in ("end", "latest"):
            return cls(Anchor.END)
        if re.fullmatch(r"[0-9]{1,19}", text):
            return cls(Anchor.OFFSET, int(text))
        if re.fullmatch(r"-[0-9]{1,19}", text):
            return cls(Anchor.BEFORE_END, -int(text))
        if re.fullmatch(r"@[0-9]{1,15}", text):
            return cls(Anchor.TIME, int(text[1:]))
        return cls(Anchor.TIME, _time_ms(text))

    def within(self, start_offset: int, end_offset: int) -> int:
        """The offset this comes to in a partition; times are looked up by the caller, who knows the broker."""
        match self.anchor:
            case Anchor.BEGINNING:
                return start_offset
            case Anchor.BEFORE_END:
                return max(start_offset, end_offset - self.number)
            case Anchor.OFFSET:
                return min(max(start_offset, self.number), end_offset)
            case Anchor.END | Anchor.TIME:
                return end_offset


def _time_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no position: write {WANTED}") from None
    # A time without a zone is UTC, so that a command means the same on every host.
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
