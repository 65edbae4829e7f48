"""End-to-end latency, open loop: from the moment a message should have been sent to the moment a consumer has it.

A generator that waits for a slow broker hides the waiting (coordinated omission); here a late send counts as latency.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time

from benchmarks.load.job import PATIENCE_S, Job, LoadFailed, Meter, Outcome
from benchmarks.load.read import new_consumer
from benchmarks.load.source import Arrivals, Source, payload
from benchmarks.summary import percentile
from confluent_kafka import TopicPartition

_STAMP = struct.Struct("<q")
_PR_SET_TIMERSLACK = 29
# The first messages find cold caches and a consumer that just connected.
_LEAD_IN_S = 1.0


class Latency(Job, tag="latency", frozen=True):
    rate_per_s: int
    duration_s: float
    acks: str = "all"

    def run(self) -> Outcome:
        _sleep_precisely()
        lead_in = int(self.rate_per_s * _LEAD_IN_S)
        count = int(self.rate_per_s * (self.duration_s + _LEAD_IN_S))
        source = Source(self, {"acks": self.acks, "linger.ms": 0})
        listener = _Listener(self, count)
        listener.start()
        with Meter(self) as meter:
            self._send(source, count)
            source.finish()
            took_ns = listener.wait()
        measured = sorted(took_ns[lead_in:])
        named = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
        return meter.outcome(count, {name: percentile(measured, rank) / 1e6 for name, rank in named.items()})

    def written_bytes(self) -> int:
        return int(self.rate_per_s * (self.duration_s + _LEAD_IN_S)) * self.message_bytes

    def _send(self, source: Source, count: int) -> None:
        padding = payload(self.message_bytes - _STAMP.size)
        interval_ns = 1_000_000_000 / self.rate_per_s
        started_ns = time.monotonic_ns()
        for number in range(count):
            intended_ns = started_ns + int(number * interval_ns)
            ahead_ns = intended_ns - time.monotonic_ns()
            if ahead_ns > 0:
                time.sleep(ahead_ns / 1e9)
            source.send_one(_STAMP.pack(intended_ns) + padding)


class _Listener:
    """Receives on a thread of its own, from the end the topic has now, and notes how old each message is."""

    def __init__(self, job: Latency, count: int) -> None:
        arrivals = Arrivals(job)
        ends = zip(arrivals.partitions, arrivals.end_offsets(), strict=True)
        self._consumer = new_consumer(job, "latency")
        self._consumer.assign([TopicPartition(job.topic, each.partition, end) for each, end in ends])
        self._took_ns = [0] * count
        self._deadline_s = time.monotonic() + job.duration_s + PATIENCE_S
        self._complete = False
        self._thread = threading.Thread(target=self._receive)

    def start(self) -> None:
        self._thread.start()

    def _receive(self) -> None:
        for number in range(len(self._took_ns)):
            value = None
            while value is None:
                message = self._consumer.poll(1.0)
                now_ns = time.monotonic_ns()
                if message is not None and message.error() is None:
                    value = message.value()
                elif message is not None or time.monotonic() > self._deadline_s:
                    return
            self._took_ns[number] = now_ns - _STAMP.unpack_from(value)[0]
        self._complete = True

    def wait(self) -> list[int]:
        self._thread.join()
        self._consumer.close()
        if not self._complete:
            raise LoadFailed("the consumer did not receive every message")
        return self._took_ns


def _sleep_precisely() -> None:
    """The kernel may otherwise add 50 microseconds to every sleep. Threads started later inherit it."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
