"""Tables are partitioned by the hour of the record's timestamp, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

HOUR_US = 3_600_000_000
# Of times that calendars do not have. Files of such hours have no statistics either, because libraries that read them
# would make dates of them.
UNKNOWN = "unknown"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def label(hour: int) -> str:
    """Of an hour since 1970. Labels sort as time does; years beyond 9999, or before 1, have none."""
    try:
        begin = _EPOCH + timedelta(hours=hour)
    except OverflowError:
        return UNKNOWN
    return f"{begin.year:04}-{begin.month:02}-{begin.day:02}-{begin.hour:02}"
