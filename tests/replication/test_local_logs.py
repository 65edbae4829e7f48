"""Logs as they are opened for replication."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random

from tests.disk.power import PowerCutDisk
from tests.replication.world import DATA, topic_id
from tests.storage.batches import append, batch_of, contents, sync

from penstock.clock import SteppedClock
from penstock.cluster.core.image import PartitionImage, TopicImage
from penstock.config.log import LogSettings
from penstock.coordination.paths import PartitionState
from penstock.replication.local_logs import LocalLogs
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal
from penstock.storage.log import Log

SAFE, UNSAFE = 10, 10
# Too large for the journal.
LARGE = bytes(20_000)


@contextmanager
def opened(disk: PowerCutDisk, replicas: tuple[int, ...]) -> Iterator[Log]:
    state = PartitionState(leader=1, leader_epoch=0, replicas=replicas, isr=replicas)
    topic = TopicImage("orders", topic_id("orders"), (PartitionImage(state, 0),), {})
    with ThreadPoolExecutor(1) as pool:
        directories, journal = PartitionDirectories(disk, DATA), Journal.open(disk, DATA)
        logs = LocalLogs(directories, LogSettings(), journal, pool, pool, SteppedClock())
        (log,) = asyncio.run(logs.open(topic, [0], LogSettings()))
        yield log
        log.abandon()


def after_a_power_cut(replicas: tuple[int, ...], random: Random) -> PowerCutDisk:
    """Ten records are safe, ten more were written and not synced."""
    disk = PowerCutDisk()
    with opened(disk, replicas) as log:
        for _ in range(SAFE):
            append(log, batch_of(LARGE))
        sync(log)
        for _ in range(UNSAFE):
            append(log, batch_of(LARGE))
    disk.cut_power(random)
    return disk


def test_a_replica_keeps_nothing_behind_a_hole_that_a_power_cut_left() -> None:
    """It would acknowledge all of it with its first fetch."""
    holes = 0
    for seed in range(30):
        disk = after_a_power_cut((1, 2), Random(seed))
        for _ in range(2):
            with opened(disk, (1, 2)) as log:
                assert log.end_offset >= SAFE
                assert list(contents(log)) == list(range(log.end_offset))
                holes += bool(log.recovery.damage)
    assert holes


def test_where_there_is_no_other_replica_what_is_behind_a_hole_is_kept() -> None:
    for seed in range(30):
        with opened(after_a_power_cut((1,), Random(seed)), (1,)) as log:
            if log.recovery.damage:
                assert log.end_offset > log.recovery.damage[0].next_offset
                return
    raise AssertionError("no power cut left a hole")
