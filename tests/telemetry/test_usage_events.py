"""Counts as events: numbered, without holes, each small enough for its topic."""

from __future__ import annotations

import json
from typing import Any

from penstock.telemetry.usage import MAX_TENANT_CHARACTERS, Usage
from penstock.telemetry.usage_events import EVENT_BYTES, Event, UsageEvents
from penstock.units import KIB, MIB


def values(events: list[Event]) -> list[dict[str, Any]]:
    return [json.loads(event.value) for event in events]


def test_intervals_follow_on_each_other_and_a_life_has_a_first_and_a_last_event() -> None:
    usage, events = Usage(10), UsageEvents(3, 77, 1000, gap_before=True)
    assert not events.has_begun
    usage.of_api("Produce").count("acme", "orders", 2, 20, 1)
    cut = events.cut(usage.take(), 2000)
    assert [(event.key, event.timestamp_ms) for event in cut] == [(b"[3,77,0]", 2000)]
    assert values(cut) == [
        {
            "format": 1,
            "node": 3,
            "broker_epoch": 77,
            "sequence": 0,
            "from_ms": 1000,
            "to_ms": 2000,
            "first": True,
            "last": False,
            "gap_before": True,
            "usage": [
                {"tenant": "acme", "topic": "orders", "api": "Produce", "messages": 2, "bytes": 20, "requests": 1}
            ],
        }
    ]
    assert events.has_begun
    (idle,) = values(events.cut([], 3000))
    (end,) = values(events.cut([], 3500, last=True))
    assert (idle["sequence"], idle["from_ms"], idle["to_ms"], idle["usage"]) == (1, 2000, 3000, [])
    assert (idle["first"], idle["last"], idle["gap_before"]) == (False, False, False)
    assert (end["sequence"], end["from_ms"], end["to_ms"], end["last"]) == (2, 3000, 3500, True)


def test_what_is_too_much_for_one_event_is_several_with_the_same_interval() -> None:
    usage, events = Usage(10_000), UsageEvents(1, 5, 0, gap_before=False)
    api = usage.of_api("Produce")
    for number in range(1000):
        # As long as one can be, of what takes the most bytes.
        tenant = f"{number:03}" + "\0" * (MAX_TENANT_CHARACTERS - 3)
        api.count(tenant, "t" * 249, 2**63, 2**63, 2**63)
    cut = events.cut(usage.take(), 10, last=True)
    assert len(cut) > 1
    assert all(len(event.value) <= EVENT_BYTES + KIB < MIB for event in cut)
    found = values(cut)
    assert [event["sequence"] for event in found] == list(range(len(cut)))
    assert {(event["from_ms"], event["to_ms"]) for event in found} == {(0, 10)}
    assert [event["first"] for event in found] == [True] + [False] * (len(cut) - 1)
    assert [event["last"] for event in found] == [False] * (len(cut) - 1) + [True]
    assert len({row["tenant"] for event in found for row in event["usage"]}) == 1000
