"""Produce as fast as librdkafka's producers can: full batches, or one message per request."""

from __future__ import annotations

from benchmarks.load.job import Job, Meter, Outcome
from benchmarks.load.source import BATCH_BYTES, Arrivals, Source, payload

# Beyond what a socket takes: librdkafka does not wait for answers.
_UNLIMITED = 1_000_000


class Produce(Job, tag="produce", frozen=True):
    """Keyless messages that fill one partition's batch after the other; as librdkafka does it unless told otherwise."""

    messages: int
    acks: str = "all"
    batch_bytes: int = BATCH_BYTES
    in_flight: int = _UNLIMITED

    def run(self) -> Outcome:
        source = Source(self, {"acks": self.acks, "batch.size": self.batch_bytes, "max.in.flight": self.in_flight})
        arrivals = Arrivals(self)
        value = payload(self.message_bytes)
        with Meter(self) as meter:
            source.send_in_turn(value, self.messages, len(arrivals.partitions))
            source.finish()
        arrivals.expect(self.messages)
        return meter.outcome(self.messages)

    def written_bytes(self) -> int:
        return self.messages * self.message_bytes


class Single(Job, tag="single", frozen=True):
    """One message per request, no linger: the cost of a request.

    The messages wait inside librdkafka, which sends the next when fewer than `in_flight` are unanswered, so no Python
    runs per message.
    """

    messages: int
    acks: str = "1"
    producers: int = 16
    # What a producer has unless told otherwise: Kafka's own by default, librdkafka's when it is idempotent.
    in_flight: int = 5

    def run(self) -> Outcome:
        settings = {"acks": self.acks, "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": self.in_flight}
        sources = [Source(self, settings) for _ in range(self.producers)]
        arrivals = Arrivals(self)
        value = payload(self.message_bytes)
        for source in sources:
            source.send_one(value)
            source.finish()
        each = self.messages // self.producers
        with Meter(self) as meter:
            for source in sources:
                source.send(value, each)
            for source in sources:
                source.finish()
        arrivals.expect((each + 1) * self.producers)
        return meter.outcome(each * self.producers)

    def written_bytes(self) -> int:
        return self.messages * self.message_bytes
