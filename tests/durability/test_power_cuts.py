"""Power cuts under a whole node with real clients: what was acknowledged or read, committed or created, is still there.

The disk is in memory and forgets any part of what was not synced (tests/disk/power.py); the clients stay, as they
would on other machines, and go on with the node that comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from tests import scale
from tests.crash.broker import free_address
from tests.crash.load import Load, read_all
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.durability import clients
from tests.durability.bystanders import Committer, Creator, Reader
from tests.interop.waiting import eventually

from penstock.errors import PenstockError
from penstock.testing import node

# What goes wrong while a node stops.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
TOPIC, PARTITIONS = "orders", 2
# Small segments, so that cuts also meet rolls, indexes and checkpoints.
SETTINGS = {"segment.bytes": "16384", "index.interval.bytes": "512", "offsets.topic.num.partitions": "2"}
# Disk operations until the power goes, at most: some lives end soon, some last until all clients are back.
LIVES = (50, 400, 3000)
START_OPERATIONS = 400
# How many of the cuts come so early that many of them meet a node that is starting.
START_SHARE = 0.2
LIFE_S = 30.0
# Few, because the disk in memory copies whatever it keeps.
IN_FLIGHT = 100


class PoweredNode:
    """A node on a disk in memory, at an address that it keeps."""

    def __init__(self, directory: Path, choose: Random) -> None:
        self.bootstrap = free_address()
        # Only the lock in it is a real file.
        self._directory = str(directory)
        self._memory = PowerCutDisk()
        self._choose = choose
        self._running = ExitStack()

    def start(self) -> None:
        self._start(FaultyDisk(self._memory))

    def stop(self) -> None:
        self._running.close()

    def live_until_a_cut(self, load: Load) -> bool:
        """Runs until the power goes at some disk operation; False if that was before it served anyone."""
        disk = FaultyDisk(self._memory)
        in_the_start = self._choose.random() < START_SHARE
        if in_the_start:
            disk.pull_after(self._choose.randrange(START_OPERATIONS), self._cut)
        try:
            self._start(disk)
        except (OSError, PenstockError):
            assert disk.is_pulled, "it did not start, although it had power"
            return False
        if not in_the_start:
            before = load.acknowledged_count
            eventually(lambda: load.acknowledged_count > before, "the producer is back", LIFE_S)
            disk.pull_after(self._choose.randrange(self._choose.choice(LIVES)), self._cut)
        assert disk.wait_until_pulled(LIFE_S), "the clients stopped working"
        self.stop()
        return True

    def _cut(self) -> None:
        self._memory.cut_power(self._choose)

    def _start(self, disk: FaultyDisk) -> None:
        settings = {**SETTINGS, "listen": self.bootstrap}
        self._running.enter_context(node(settings, data_dir=self._directory, disk=disk))


def test_a_few_power_cuts(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    nothing_promised_is_lost(12, tmp_path, record_property)


@pytest.mark.torture("power")
def test_three_hundred_power_cuts(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    nothing_promised_is_lost(300, tmp_path, record_property)


def nothing_promised_is_lost(cuts: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with ExitStack() as at_the_end:
        _nothing_promised_is_lost(cuts, tmp_path, record_property, at_the_end)


def _nothing_promised_is_lost(
    cuts: int, tmp_path: Path, record_property: Callable[[str, object], None], at_the_end: ExitStack
) -> None:
    powered = PoweredNode(tmp_path, Random(scale.seed()))
    at_the_end.callback(powered.stop)
    powered.start()
    clients.create_topic(powered.bootstrap, TOPIC, PARTITIONS)
    powered.stop()
    load = Load(powered.bootstrap, TOPIC, PARTITIONS, in_flight=IN_FLIGHT)
    reader = Reader(powered.bootstrap, TOPIC, PARTITIONS)
    committer = Committer(powered.bootstrap, "billing", TOPIC)
    creator = Creator(powered.bootstrap)
    for bystander in (reader, committer, creator):
        at_the_end.callback(bystander.tell_to_stop)
    served = sum(powered.live_until_a_cut(load) for _ in range(cuts))
    powered.start()
    load.stop()
    for bystander in (reader, committer, creator):
        bystander.stop()
    assert not load.failures, load.failures[:3]
    kept = read_all(powered.bootstrap, TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        for offset, sequence in load.acknowledged[partition].items():
            assert kept[partition].get(offset) == sequence, f"acknowledged {sequence} at {offset} is lost"
        for offset, value in reader.seen[partition].items():
            assert kept[partition].get(offset) == int(value), f"{value!r}, read at {offset}, is lost"
        assert list(kept[partition].values()) == list(range(load.sent[partition])), "order or number is wrong"
    assert committer.acknowledged <= clients.committed(powered.bootstrap, "billing", TOPIC) <= committer.tried
    topics = set(clients.topics(powered.bootstrap))
    assert creator.acknowledged <= topics
    assert not creator.deleted & topics
    powered.stop()
    record_property("cuts", cuts)
    record_property("cuts_while_serving", served)
    record_property("acknowledged", load.acknowledged_count)
    record_property("read", sum(len(values) for values in reader.seen.values()))
    record_property("commits", committer.acknowledged)
    record_property("topics", len(creator.acknowledged))
