"""What brokers wrote down themselves: who leads and how far readers may read, from their log lines."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from typing import Any

from tests.cluster.history.events import Event, Leading, Watermark

LAUNCHED, LEADING, WATERMARK = "test.launched", "partition.leading", "partition.watermark"


def events_in(lines: str, broker: int, topic: str) -> Iterator[Event]:
    """Of one broker's whole log, all its lives. What is no line of ours, a traceback say, is passed over."""
    # Lines have the time of day, histories the machine's own clock.
    difference_ns = time.monotonic_ns() - time.time_ns()
    life = 0
    for line in lines.splitlines():
        row = _parsed(line)
        if row.get("event") == LAUNCHED:
            life += 1
        if row.get("topic") != topic or row.get("event") not in (LEADING, WATERMARK):
            continue
        at_ns = difference_ns + _time_ns(row["time"])
        partition = row["partition"]
        if row["event"] == LEADING:
            yield Leading(
                at_ns=at_ns,
                topic=topic,
                partition=partition,
                observer=f"broker {broker} itself, life {life}",
                leader=broker,
                leader_epoch=row["leader_epoch"],
            )
        else:
            yield Watermark(
                at_ns=at_ns,
                topic=topic,
                partition=partition,
                broker=broker,
                leader_epoch=row["leader_epoch"],
                offset=row["offset"],
                life=life,
            )


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _time_ns(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000
