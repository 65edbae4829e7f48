"""Tables are partitioned by the hour of the record's timestamp, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

HOUR_US = 3_600_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def label(hour: int) -> str:
    """Of an hour since 1970. Labels sort as time does; years beyond 9999 are as far as a table can tell."""
    try:
        begin = _EPOCH + timedelta(hours=hour)
    except OverflowError:
        return "unknown"
    return f"{begin.year:04}-{begin.month:02}-{begin.day:02}-{begin.hour:02}"
