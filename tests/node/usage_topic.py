"""What is in `__usage`, read as any client can."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.leaders import brokers, leaders
from tests.interop.waiting import eventually

from penstock.clock import SystemClock
from penstock.cluster.core.image import USAGE_TOPIC
from penstock.units import HOUR_MS, MIB, MINUTE_MS
from penstock.wire.batch import read_header
from penstock.wire.records import Record, records_of


class Used(NamedTuple):
    messages: int
    bytes: int
    requests: int


class Event(NamedTuple):
    """A record: the key as it is, and the value decoded."""

    key: bytes
    value: dict[str, Any]

    @property
    def life(self) -> tuple[int, int]:
        return self.value["node"], self.value["broker_epoch"]


def into_the_hour() -> timedelta:
    """A clock so far ahead has just begun an hour, which does not end by itself while a test runs."""
    return timedelta(milliseconds=HOUR_MS - SystemClock().now_ms() % HOUR_MS + MINUTE_MS)


def read_events(bootstrap: str) -> list[Event]:
    """All of them, in the order of their keys, doubles and all. None before there is such a topic."""
    found = [Event(bytes(record.key or b""), json.loads(record.value or b"")) for record in read_records(bootstrap)]
    return sorted(found, key=lambda event: json.loads(event.key))


def read_records(bootstrap: str) -> list[Record]:
    """Waits where nobody leads, or a leader that has just been elected is not the one that is told."""
    found: list[list[Record]] = []

    def read() -> bool:
        try:
            found.append(_read_once(bootstrap))
        except NotLed:
            return False
        return True

    eventually(read, f"all of {USAGE_TOPIC} is led")
    return found[0]


class NotLed(Exception):
    """By the broker that was asked."""


def _read_once(bootstrap: str) -> list[Record]:
    addresses = brokers(bootstrap)
    found: list[Record] = []
    for index, leader in enumerate(leaders(bootstrap, USAGE_TOPIC)):
        if leader not in addresses:
            raise NotLed
        with RawConnection(addresses[leader]) as connection:
            offset = 0
            while batches := _fetched(connection, index, offset):
                for batch in batches:
                    found += records_of(batch, limit_bytes=MIB)
                    offset = read_header(batch).next_offset
    return found


def _fetched(connection: RawConnection, index: int, offset: int) -> list[bytes]:
    answer = connection.ask(requests.fetch(USAGE_TOPIC, offset, partition=index))
    (row,) = answer.responses[0].partitions
    if row.error_code != 0:
        raise NotLed(row)
    data, batches = bytes(row.records or b""), []
    while data:
        size = read_header(data).size
        batches.append(data[:size])
        data = data[size:]
    return batches


def used(events: Iterable[Event]) -> dict[tuple[str, str, str], Used]:
    """By tenant, topic and API; each key once."""
    totals: dict[tuple[str, str, str], Counter[str]] = {}
    for value in {event.key: event.value for event in events}.values():
        for row in value["usage"]:
            total = totals.setdefault((row["tenant"], row["topic"], row["api"]), Counter())
            total.update({name: row[name] for name in Used._fields})
    return {series: Used(*(total[name] for name in Used._fields)) for series, total in totals.items()}


def check_lives(events: Iterable[Event]) -> list[list[Event]]:
    """By life, each without a hole or a double; in their order."""
    lives: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        lives.setdefault(event.life, []).append(event)
    for life in lives.values():
        values = [event.value for event in life]
        sequences = [value["sequence"] for value in values]
        assert sequences == list(range(len(values))), sequences
        assert [value["first"] for value in values] == [True] + [False] * (len(values) - 1)
        assert not any(value["last"] for value in values[:-1])
        for earlier, later in pairwise(values):
            parts = (later["from_ms"], later["to_ms"]) == (earlier["from_ms"], earlier["to_ms"])
            assert parts or later["from_ms"] == earlier["to_ms"]
        for event in life:
            assert json.loads(event.key) == [*event.life, event.value["sequence"]]
    return list(lives.values())
