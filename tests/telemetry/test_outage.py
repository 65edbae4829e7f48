from __future__ import annotations

from penstock.telemetry.outage import Outage
from penstock.units import DAY_MS, MINUTE_MS, SECOND_MS


def test_what_fails_every_second_is_said_at_growing_intervals_with_a_count() -> None:
    outage = Outage()
    said = [(second, times) for second in range(200) if (times := outage.failed("full", second * SECOND_MS))]
    assert said == [(0, 1), (10, 11), (30, 31), (70, 71), (150, 151)]
    lines = sum(outage.failed("full", now_ms) is not None for now_ms in range(200 * SECOND_MS, DAY_MS, SECOND_MS))
    assert DAY_MS // (10 * MINUTE_MS) - 10 < lines < DAY_MS // (10 * MINUTE_MS) + 10


def test_another_reason_is_said_at_once() -> None:
    outage = Outage()
    assert [outage.failed(why, now_ms) for now_ms, why in enumerate(["full", "full", "broken", "broken"])] == [
        1,
        None,
        3,
        None,
    ]


def test_the_next_outage_begins_anew() -> None:
    outage = Outage()
    assert not outage.lasts
    for now_ms in range(3):
        outage.failed("full", now_ms)
    assert outage.lasts
    assert outage.over() == 3
    assert not outage.lasts
    assert outage.failed("full", 4) == 1
