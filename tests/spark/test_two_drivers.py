"""Two drivers of one query that write the same batch at the same time, as two on one checkpoint do."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pyarrow as pa
from pyspark.sql.types import StructType
from tests import scale
from tests.spark.consumed import consumed
from tests.spark.written import new_topic

from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions, stream_sink_options
from penstock.spark.stream_writer import StreamWriter
from penstock.spark.task_writer import TaskWriter, Written
from penstock.testing import TestNode

SCHEMA = StructType().add("key", "string").add("value", "string")
BATCHES = 20
TASKS, ROWS = 2, 10


class Driver:
    """One run of the query; `steps` is what it does, one after the other."""

    def __init__(self, options: SinkOptions, name: str, batch_id: int) -> None:
        self._writer = StreamWriter(options, SCHEMA)
        self._tasks = TaskWriter(options, SCHEMA)
        self._name = name
        self._batch = QueryBatch("stream:contested", f"{name}{batch_id}", batch_id)
        self._messages: list[Written] = []
        self.steps = [*(lambda task=task: self._write(task) for task in range(TASKS)), self._commit]

    def _write(self, task: int) -> None:
        values = [f"{self._batch.batch_id}-{task}-{row}" for row in range(ROWS)]
        rows = pa.RecordBatch.from_pydict({"key": [self._name] * ROWS, "value": values})
        self._messages.append(self._tasks.write([rows], self._batch))

    def _commit(self) -> None:
        self._writer.commit(self._messages, self._batch.batch_id)


def test_one_wins_and_nothing_is_doubled(spark_node: TestNode) -> None:
    topic = new_topic(spark_node.bootstrap, 3)
    servers = {"kafka.bootstrap.servers": spark_node.bootstrap}
    options = stream_sink_options({**servers, "topic": topic, "delivery": "exactly-once"})
    chance = Random(scale.seed())
    with ThreadPoolExecutor(2) as pool:
        for batch_id in range(BATCHES):
            # Each is somewhere in its batch when both go on at once.
            meeting = threading.Barrier(2, timeout=30)
            drivers = [Driver(options, name, batch_id) for name in "ab"]
            places = [chance.randrange(TASKS + 1) for _ in drivers]
            done = list(pool.map(goes_through, drivers, places, [meeting, meeting]))
            assert any(done), "nobody has committed"
    found = consumed(spark_node.bootstrap, topic, 3)
    expected = [f"{batch}-{task}-{row}" for batch in range(BATCHES) for task in range(TASKS) for row in range(ROWS)]
    assert Counter((message.value() or b"").decode() for message in found) == dict.fromkeys(expected, 1)
    winners = {((message.value() or b"").partition(b"-")[0], message.key()) for message in found}
    assert len(winners) == BATCHES, "a batch is of one driver alone"


def goes_through(driver: Driver, place: int, meeting: threading.Barrier) -> bool:
    """False: it was refused, because the other one has taken over."""
    is_refused = False
    for number, step in enumerate(driver.steps):
        if number == place:
            meeting.wait()
        if not is_refused:
            try:
                step()
            except ClientFailure:
                is_refused = True
    return not is_refused
