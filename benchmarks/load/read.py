"""Catch-up read and fan-out: how fast what is in the log reaches consumers."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence

from benchmarks.load.job import PATIENCE_S, Job, LoadFailed, Meter, Outcome
from benchmarks.load.source import Arrivals, Source, payload
from confluent_kafka import Consumer, TopicPartition

_CHUNK = 1000


class Read(Job, tag="read", frozen=True):
    """One consumer reads the first `messages` of a topic that was filled before, from the start `times` over."""

    messages: int
    times: int = 1

    def run(self) -> Outcome:
        arrivals = Arrivals(self)
        meter = Meter(self)
        for _ in range(self.times):
            # One that has come to the end has a fetch waiting there, and would begin anew only when that is answered.
            consumer = new_consumer(self, "catch-up")
            with meter:
                consumer.assign([TopicPartition(self.topic, each.partition, 0) for each in arrivals.partitions])
                receive(consumer, self.messages)
            consumer.close()
        return meter.outcome(self.messages * self.times)


class FanOut(Job, tag="fan-out", frozen=True):
    """One producer at full speed, and `groups` consumer groups of one member that each follow along.

    Messages are counted as delivered: `groups` times what was produced.
    """

    messages: int
    groups: int = 5
    acks: str = "1"

    def run(self) -> Outcome:
        source = Source(self, {"acks": self.acks})
        ends = {each.partition: end for each, end in self._ends()}
        followers = [_Follower(self, ends) for _ in range(self.groups)]
        deadline_s = time.monotonic() + PATIENCE_S
        # Together: a broker may hold back a new group's first assignment for some seconds.
        waiting = followers
        while waiting:
            waiting = [follower for follower in waiting if not follower.joined()]
            if time.monotonic() > deadline_s:
                raise LoadFailed(f"a consumer group was not assigned anything within {PATIENCE_S:.0f} s")
        value = payload(self.message_bytes)
        with Meter(self) as meter:
            for follower in followers:
                follower.start(self.messages)
            source.send(value, self.messages)
            source.finish()
            for follower in followers:
                follower.wait()
        return meter.outcome(self.messages * self.groups)

    def written_bytes(self) -> int:
        return self.messages * self.message_bytes

    def _ends(self) -> Sequence[tuple[TopicPartition, int]]:
        arrivals = Arrivals(self)
        return list(zip(arrivals.partitions, arrivals.end_offsets(), strict=True))


class _Follower:
    """A group of its own with one member, started at the end that the topic had before the measurement."""

    def __init__(self, job: FanOut, ends: dict[int, int]) -> None:
        self._consumer = new_consumer(job, f"follower-{uuid.uuid4().hex}")
        self._topic = job.topic
        self._ends = ends
        self._thread: threading.Thread | None = None
        self._received = 0
        self._consumer.subscribe([self._topic], on_assign=self._place)

    def joined(self) -> bool:
        """Lets the group move on, and tells whether its member has its partitions."""
        if not self._consumer.assignment():
            self._consumer.poll(0.02)
        return bool(self._consumer.assignment())

    def _place(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(
            [TopicPartition(self._topic, each.partition, self._ends[each.partition]) for each in partitions]
        )

    def start(self, count: int) -> None:
        self._thread = threading.Thread(target=self._receive, args=(count,))
        self._thread.start()

    def _receive(self, count: int) -> None:
        receive(self._consumer, count)
        self._received = count

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self._consumer.close()
        if not self._received:
            raise LoadFailed("a consumer group did not receive everything")


def new_consumer(job: Job, group_id: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": job.address,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # As librdkafka has it unless told otherwise.
            "isolation.level": "read_committed",
            "log_level": 3,
        }
    )


def receive(consumer: Consumer, count: int) -> None:
    """Returns when `count` messages have arrived. Errors and silence end it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while count:
        messages = consumer.consume(min(_CHUNK, count), 1.0)
        for message in messages:
            if message.error() is not None:
                raise LoadFailed(f"a consumer got {message.error()}")
        count -= len(messages)
        if time.monotonic() > deadline_s:
            raise LoadFailed(f"{count} messages did not arrive within {PATIENCE_S:.0f} s")
