"""Ten times the usual load: nothing acknowledged is lost, memory stays bounded, latency comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import scale
from tests.bad_input import requests
from tests.bad_input.broker import broker_process
from tests.pressure.load import Load, lost

MIB = 1024 * 1024
TOPIC, PARTITIONS = "orders", 6
PRODUCERS, MESSAGE_BYTES = 10, 1024
# Per second and producer: enough that ten times as much is more than one core does without batching.
USUAL_RATE = 500.0
MEMORY = 32 * MIB
SETTINGS = {"queued.max.request.bytes": str(MEMORY), "queued.max.response.bytes": str(MEMORY)}
# What logs, indexes and the interpreter take for themselves.
SLACK = 32 * MIB
BACK_WITHIN_S = 10.0
WINDOW_S = 0.5
# Latency is back when a window is no worse than this, compared with before; below that it is noise of the machine.
NOISE_S = 0.050

Record = Callable[[str, object], None]


def test_a_short_surge(tmp_path: Path, record_property: Record) -> None:
    surge(tmp_path, record_property, usual_s=0.5, surge_s=2.0)


@pytest.mark.torture("surge")
def test_a_minute_of_surge(tmp_path: Path, record_property: Record) -> None:
    surge(tmp_path, record_property, usual_s=10.0, surge_s=60.0 * scale.minutes(1.0))


def surge(tmp_path: Path, record_property: Record, usual_s: float, surge_s: float) -> None:
    with broker_process(tmp_path, SETTINGS) as broker:
        with broker.connect() as connection:
            assert connection.ask(requests.create_topic(TOPIC, PARTITIONS)).topics[0].error_code == 0
        load = Load(broker.bootstrap, TOPIC, PARTITIONS, PRODUCERS, MESSAGE_BYTES)
        warm_up(load)
        before = phase(load, usual_s, active=1)
        memory_before = broker.forget_peak()
        during = phase(load, surge_s, active=PRODUCERS)
        back_s = seconds_until_back(load, before)
        after = phase(load, usual_s, active=1)
        load.stop()
        peak = broker.peak_bytes()
        assert not load.failures, load.failures[:3]
        lost_count = lost(broker.bootstrap, TOPIC, PARTITIONS, load.acknowledged)
        assert broker.unexpected_errors() == 0
    record_property("acknowledged", len(load.acknowledged))
    record_property("lost", lost_count)
    record_property("held_back_at_the_client", load.held_back)
    record_property("rss_before_mib", round(memory_before / MIB, 1))
    record_property("rss_peak_mib", round(peak / MIB, 1))
    for name, latency_s in (("before", before), ("during", during), ("after", after)):
        record_property(f"p99_{name}_ms", round(latency_s * 1000, 1))
    record_property("seconds_until_latency_is_back", round(back_s, 1))
    assert lost_count == 0
    assert peak - memory_before <= 2 * MEMORY + SLACK, f"memory grew by {peak - memory_before:,} bytes"
    assert back_s <= BACK_WITHIN_S


def warm_up(load: Load) -> None:
    """Every producer has sent something, so that all connections are there."""
    load.set_rate(USUAL_RATE, active=PRODUCERS)
    while len({value.split(b":")[0] for value in list(load.acknowledged.values())}) < PRODUCERS:
        time.sleep(WINDOW_S / 10)
    load.set_rate(USUAL_RATE, active=1)
    time.sleep(WINDOW_S)


def phase(load: Load, seconds: float, active: int) -> float:
    """So many producers for so long; the watched one's latency at 99 %."""
    load.set_rate(USUAL_RATE, active)
    since_s = time.monotonic()
    time.sleep(seconds)
    return load.latency_s(since_s, time.monotonic(), 0.99)


def seconds_until_back(load: Load, before_s: float) -> float:
    """From the end of the surge to the end of the first window whose messages fare about as well as before."""
    load.set_rate(USUAL_RATE, active=1)
    ended_s = time.monotonic()
    good_enough_s = max(NOISE_S, 2 * before_s)
    window_s = ended_s
    while window_s - ended_s <= BACK_WITHIN_S:
        time.sleep(WINDOW_S)
        until_s = time.monotonic()
        # What is still not answered then has taken longer than that.
        time.sleep(good_enough_s)
        if load.latency_s(window_s, until_s, 0.99) <= good_enough_s:
            return until_s - ended_s
        window_s = until_s
    return window_s - ended_s
