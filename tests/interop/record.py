"""A record as every client library can send and show it."""

from __future__ import annotations

import time
from dataclasses import dataclass

# A time for records that give their own: recent, because retention goes by what records say.
AN_HOUR_AGO_MS = int(time.time() * 1000) - 3_600_000


@dataclass(frozen=True)
class Record:
    """`offset` and `timestamp_ms` may be absent on the way in; on the way out both are there."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int | None = None


def numbered(count: int, prefix: str = "value", partition: int = 0) -> list[Record]:
    return [Record(f"{prefix}-{index}".encode(), partition=partition) for index in range(count)]


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]
