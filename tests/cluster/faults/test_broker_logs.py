"""Brokers' log lines as events."""

from __future__ import annotations

import json

from tests.cluster.faults.broker_logs import LAUNCHED, LEADING, WATERMARK, events_in
from tests.cluster.history.events import Leading, Watermark

WHERE = {"time": "2026-01-02T03:04:05.678Z", "level": "debug", "topic": "orders", "partition": 2, "leader_epoch": 7}


def test_leaders_and_watermarks_are_found_in_each_life() -> None:
    life = [{"event": LAUNCHED}, {"event": LEADING, **WHERE}, {"event": WATERMARK, "offset": 12, **WHERE}]
    lines = "\n".join(map(json.dumps, [*life, *life])) + "\nTraceback (most recent call last):\n7\n"
    found = list(events_in(lines, 3, "orders"))
    assert [type(event) for event in found] == [Leading, Watermark, Leading, Watermark]
    leading, mark = found[2], found[3]
    assert isinstance(leading, Leading) and isinstance(mark, Watermark)
    assert (leading.partition, leading.leader, leading.leader_epoch) == (2, 3, 7)
    assert (mark.broker, mark.leader_epoch, mark.offset, mark.life) == (3, 7, 12, 2)
    assert leading.observer.endswith("life 2")


def test_lines_of_other_topics_are_passed_over() -> None:
    assert list(events_in(json.dumps({"event": LEADING, **WHERE}), 3, "others")) == []
