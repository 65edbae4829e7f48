"""`archive` and the exactly-once sink under kills of all that takes part: every row is there once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from tests import scale
from tests.crash.broker import crashing_broker
from tests.interop.waiting import eventually
from tests.spark.kills.batches import Batches
from tests.spark.kills.counting import rows_of_source, rows_of_table, rows_of_target, wrong
from tests.spark.kills.job import SINK, Job
from tests.spark.kills.killing import Killing
from tests.spark.kills.victims import WORKER, descendants, send
from tests.spark.written import produce, producer

SETTINGS = {"transaction.state.log.num.partitions": "4"}
KILLS, RIVALS = 30, 3
Record = Callable[[str, object], None]


@pytest.mark.torture("spark-kills")
def test_thirty_kills(tmp_path: Path, record_property: Record) -> None:
    with crashing_broker(tmp_path / "broker", SETTINGS) as broker:
        job = job_at(broker.bootstrap, tmp_path, ("parquet", "delta" if scale.seed() % 2 else "iceberg"))
        killing = Killing(broker, job, tmp_path, scale.seed())
        killing.run(kills=KILLS, rivals=RIVALS)
        rows = everything_is_there_once(job, killing.partitions)
    record_property("struck", dict(killing.struck))
    record_property("drivers", killing.drivers)
    record_property("drivers_that_a_busy_machine_ended", killing.too_busy)
    record_property("interrupted_batches", dict(killing.interrupted))
    record_property("batches", killing.batches)
    record_property("partitions_at_the_end", list(killing.partitions.values()))
    record_property("rows", rows)
    assert killing.last_words == [], "drivers outlive what is not theirs"


def test_a_worker_and_the_broker(spark: SparkSession, tmp_path: Path) -> None:
    """The same job in this process: it cannot be killed, but a query that fails begins again as one of a new driver."""
    with crashing_broker(tmp_path / "broker", SETTINGS) as broker:
        job = job_at(broker.bootstrap, tmp_path, ("parquet",))
        for topic in (job.source, job.target):
            broker.create_topic(topic, 2)
        batches = Batches(job.checkpoint(SINK))
        client = producer(broker.bootstrap)
        for partition in range(2):
            produce(client, job.source, (b"%d" % number for number in range(300)), partition)
        with ThreadPoolExecutor(len(job.queries)) as pool:
            running = replace(job, readers=3, writers=2, ends=True).start(spark, pool)
            eventually(lambda: batches.begun > 0, "the second batch has begun", 60, lambda: running)
            send([Random(scale.seed()).choice(descendants(os.getpid(), WORKER))])
            wait(running)
            produce(client, job.source, (b"%d" % number for number in range(300)))
            begun = batches.begun
            running = replace(job, readers=1, writers=3, ends=True).start(spark, pool)
            eventually(lambda: batches.begun > begun, "another batch has begun", 60, lambda: running)
            broker.kill()
            broker.start()
            for future in running:
                future.result()
        everything_is_there_once(job, {job.source: 2, job.target: 2})


def job_at(bootstrap: str, directory: Path, kinds: tuple[str, ...]) -> Job:
    return Job(bootstrap=bootstrap, source="source", target="target", directory=f"{directory}/job", kinds=kinds)


def everything_is_there_once(job: Job, partitions: dict[str, int]) -> int:
    expected = rows_of_source(job, partitions[job.source])
    found = {kind: rows_of_table(job, kind) for kind in job.kinds}
    found[SINK] = rows_of_target(job, partitions[job.target])
    assert {name: wrong(expected, rows) for name, rows in found.items()} == {name: {} for name in found}
    return expected.total()
