"""Orders for the job of `kafka_job.py`, and what must have become of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from uuid import uuid4

from tests.spark.consumed import consumed
from tests.spark.kafka_job import Topics
from tests.spark.written import new_topic, producer

PARTITIONS = 3
_CUSTOMERS = 7


class Orders:
    """Three topics of a job, on a node."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        orders, lines, totals = (new_topic(bootstrap, PARTITIONS) for _ in range(3))
        self.topics = Topics(bootstrap, orders, lines, totals, group=f"job-{uuid4().hex[:8]}")
        self.checkpoints = str(directory / "checkpoints")
        self._placed = 0

    def place(self, count: int) -> None:
        """Every tenth is none, only a tombstone."""
        client = producer(self.topics.servers)
        for number in range(self._placed, self._placed + count):
            order = None if number % 10 == 9 else json.dumps({"item": f"item{number}", "amount": number})
            headers: list[tuple[str, str | bytes | None]] = [("trace", b"%d" % number), ("none", None)]
            client.produce(self.topics.orders, order, f"c{number % _CUSTOMERS}", headers=headers)
        assert client.flush(20) == 0
        self._placed += count

    def check(self) -> None:
        """All that was placed was done, each exactly once."""
        valid = [number for number in range(self._placed) if number % 10 != 9]
        lines = Counter(
            (message.key(), message.value(), tuple(message.headers() or ()))
            for message in consumed(self.topics.servers, self.topics.lines, PARTITIONS)
        )
        assert lines == {_line(number): 1 for number in valid}
        spent: Counter[bytes] = Counter()
        for number in valid:
            spent[b"c%d" % (number % _CUSTOMERS)] += number
        # Each batch tells them anew; a customer's are in one partition, so the last one is the newest.
        totals = consumed(self.topics.servers, self.topics.totals, PARTITIONS)
        assert {message.key(): int(message.value() or b"") for message in totals} == spent


def _line(number: int) -> tuple[bytes, bytes, tuple[tuple[str, bytes | None], ...]]:
    value = b'{"ITEM":"ITEM%d","AMOUNT":%d}' % (number, number)
    return b"c%d" % (number % _CUSTOMERS), value, (("trace", b"%d" % number), ("none", None))
