"""Transactions: one producer that begins, writes and commits, one after another as fast as it is answered."""

from __future__ import annotations

import uuid

from benchmarks.load.job import PATIENCE_S, Job, Meter, Outcome
from benchmarks.load.source import Arrivals, payload
from confluent_kafka import Producer

# The first ones find no coordinator, no topic for its state, and a connection that was just made.
_LEAD_IN = 20


class Transactions(Job, tag="transactions", frozen=True):
    """Each has `messages_each`, to all partitions in turn. `aborted_percent` of them are aborted when all is written.

    librdkafka's defaults: it adds partitions to the transaction itself, and flushes when it commits.
    """

    transactions: int
    messages_each: int = 10
    aborted_percent: int = 0

    def run(self) -> Outcome:
        arrivals = Arrivals(self)
        writer = _Writer(self, len(arrivals.partitions))
        for _ in range(_LEAD_IN):
            writer.write(commit=True)
        with Meter(self) as meter:
            for number in range(self.transactions):
                writer.write(commit=not self._is_aborted(number))
        # A marker ends it in every partition that it wrote to, and readers of committed records see what is before it.
        markers = min(self.messages_each, len(arrivals.partitions))
        arrivals.expect((self.transactions + _LEAD_IN) * (self.messages_each + markers))
        return meter.outcome(self.transactions * self.messages_each, transactions=self.transactions)

    def committed_messages(self) -> int:
        """What a reader of committed records gets to see of one run."""
        aborted = sum(map(self._is_aborted, range(self.transactions)))
        return (self.transactions + _LEAD_IN - aborted) * self.messages_each

    def written_bytes(self) -> int:
        return (self.transactions + _LEAD_IN) * self.messages_each * self.message_bytes

    def _is_aborted(self, number: int) -> bool:
        return (number + 1) * self.aborted_percent // 100 > number * self.aborted_percent // 100


class _Writer:
    def __init__(self, job: Transactions, partitions: int) -> None:
        self._topic = job.topic
        value = payload(job.message_bytes)
        self._targets = [(number % partitions, value) for number in range(job.messages_each)]
        self._producer = Producer(
            {
                "bootstrap.servers": job.address,
                "transactional.id": f"bench-{uuid.uuid4().hex}",
                "delivery.report.only.error": True,
                "log_level": 3,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def write(self, *, commit: bool) -> None:
        producer = self._producer
        producer.begin_transaction()
        for partition, value in self._targets:
            producer.produce(self._topic, value, partition=partition)
        if commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            # What is still queued would be dropped, and never reach the log.
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
