"""Two drivers of one query that write the same batch at the same time, as two on one checkpoint do."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
from pyspark.sql.types import StructType
from tests.spark.consumed import consumed
from tests.spark.written import new_topic

from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.query_batch import QueryBatch
from penstock.spark.core.sink_options import SinkOptions, stream_sink_options
from penstock.spark.stream_writer import StreamWriter
from penstock.spark.task_writer import TaskWriter, Written
from penstock.testing import TestNode

SCHEMA = StructType().add("key", "string").add("value", "string")
TASKS, ROWS = 2, 10
STEPS = TASKS + 1
BATCHES = (STEPS + 1) ** 2


class Driver:
    """One run of the query; `steps` is what it does, one after the other."""

    def __init__(self, options: SinkOptions, name: str, batch_id: int) -> None:
        self._writer = StreamWriter(options, SCHEMA)
        self._tasks = TaskWriter(options, SCHEMA)
        self._name = name
        self._batch = QueryBatch("stream:contested", f"{name}{batch_id}", batch_id)
        self._messages: list[Written] = []
        self.steps: list[Callable[[], None]] = [*(partial(self._write, task) for task in range(TASKS)), self._commit]

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
    with ThreadPoolExecutor(2) as pool:
        for batch_id in range(BATCHES):
            meeting = threading.Barrier(2, timeout=30)
            drivers = [Driver(options, name, batch_id) for name in "ab"]
            # Each has done so much when they meet, and then both go on at once.
            done = divmod(batch_id, STEPS + 1)
            assert any(pool.map(goes_through, drivers, done, [meeting, meeting])), "nobody has committed"
    found = consumed(spark_node.bootstrap, topic, 3)
    expected = [f"{batch}-{task}-{row}" for batch in range(BATCHES) for task in range(TASKS) for row in range(ROWS)]
    assert Counter((message.value() or b"").decode() for message in found) == dict.fromkeys(expected, 1)
    winners = {((message.value() or b"").partition(b"-")[0], message.key()) for message in found}
    assert len(winners) == BATCHES, "a batch is of one driver alone"


def goes_through(driver: Driver, done: int, meeting: threading.Barrier) -> bool:
    """False: it was refused, because the other one has taken over."""
    is_refused = not all(map(is_taken, driver.steps[:done]))
    meeting.wait()
    return not is_refused and all(map(is_taken, driver.steps[done:]))


def is_taken(step: Callable[[], None]) -> bool:
    try:
        step()
    except ClientFailure:
        return False
    return True
