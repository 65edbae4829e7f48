"""Followers and leaders over real connections: what is acknowledged is with all who have to have it, for good."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random

import pytest
from tests.replication.brokers import SETTINGS, Cluster, cluster_of, led_by
from tests.replication.world import deleted

from penstock.config.log import LogSettings
from penstock.config.replication import ReplicationSettings
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.storage.holes import first_hole

OS = LogSettings(flush_policy="os")
WAIT_MS = 10_000
PATIENT = ReplicationSettings(replica_fetch_wait_max_ms=10_000, replica_lag_time_max_ms=30_000)


def run(
    count: int,
    use: Callable[[Cluster], Coroutine[object, object, None]],
    log_settings: LogSettings | None = None,
    settings: ReplicationSettings = SETTINGS,
) -> None:
    async def life() -> None:
        async with cluster_of(count, settings, log_settings) as cluster:
            await use(cluster)

    asyncio.run(life())


def test_what_is_written_comes_to_the_followers_and_is_committed_then() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2, 3))
        committed = [cluster[1].write(b"a"), cluster[1].write(b"b", b"c"), cluster[1].write(b"d")]
        for each in committed:
            assert await each.wait() is None
        assert cluster[1].partition.high_watermark == 4
        await cluster.until_same(1, 2, 3)

    run(3, use)


def test_acks_all_waits_for_the_disk_of_a_follower() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        assert await cluster[1].write(b"first").wait() is None
        cluster[2].disk.syncs_may_run.clear()
        committed = cluster[1].write(b"a")
        await cluster.until(lambda: cluster[2].partition.log.end_offset == 2)
        await asyncio.sleep(0.05)
        assert not committed.done, "it is written there, but not for good"
        cluster[2].disk.syncs_may_run.set()
        assert await committed.wait() is None
        assert cluster[2].partition.log.durable_offset == 2

    run(2, use)


def test_with_os_nobody_waits_for_a_disk() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        cluster[2].disk.syncs_may_run.clear()
        assert await cluster[1].write(b"a").wait() is None

    run(2, use, OS)


def test_a_follower_that_hangs_leaves_the_isr_and_joins_again_when_it_has_all() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2, 3))
        assert await cluster[1].write(b"a").wait() is None
        cluster[3].cut_off(1)
        committed = cluster[1].write(b"b")
        assert await committed.wait() is None
        assert cluster.nodes[0].state.isr == (1, 2)
        cluster.tell_brokers()
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2, 3))
        await cluster.until_same(1, 2, 3)

    run(3, use)


def test_what_the_leader_before_had_alone_is_cut_off_when_it_follows() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2, 3))
        assert await cluster[1].write(b"kept").wait() is None
        cluster[2].cut_off(1)
        cluster[3].cut_off(1)
        lost = cluster[1].write(b"lost 1"), cluster[1].write(b"lost 2")
        cluster.takes_changes = False
        await cluster.elect(2, (2, 3))
        for each in lost:
            refused = each.result()
            assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER
        cluster.takes_changes = True
        cluster.tell_brokers()
        assert await cluster[2].write(b"after").wait() is None
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2, 3))
        await cluster.until_same(1, 2, 3)
        assert len(cluster[1].values()) == 2
        assert cluster[1].partition.log.epochs.epoch_of(1) == 1

    run(3, use)


def test_leadership_goes_round_under_load_and_all_have_the_same_in_the_end() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2, 3))
        acknowledged: list[bytes] = []
        for turn in range(12):
            for number in range(20):
                value = b"%d-%d" % (turn, number)
                committed = cluster.leader.write(value)
                if number % 5 == 0 and await committed.wait() is None:
                    acknowledged.append(value)
            isr = cluster.nodes[0].state.isr
            await cluster.elect(isr[turn % len(isr)], isr)
        assert await cluster.leader.write(b"last").wait() is None
        await cluster.until_same(1, 2, 3)
        everything = b"".join(cluster[1].values().values())
        assert len(acknowledged) >= 40
        assert all(value in everything for value in acknowledged)

    run(3, use)


def test_a_follower_that_lost_power_comes_back_and_catches_up() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        for number in range(30):
            committed = cluster[1].write(b"%d" % number)
        assert await committed.wait() is None
        await cluster[2].kill(Random(3))
        committed = cluster[1].write(b"meanwhile")
        assert await committed.wait() is None
        await cluster[2].start()
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
        await cluster.until_same(1, 2)

    run(2, use)


def test_a_follower_that_a_power_cut_left_a_hole_is_out_of_the_isr_until_it_has_all_of_it_again() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        for seed in range(100):
            for _ in range(10):
                assert await cluster[1].write(bytes(20_000)).wait() is None
            await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
            version = cluster.nodes[0].version
            await cluster[2].kill(Random(seed))
            await cluster[2].start()
            has_hole = bool(cluster[2].partition.log.recovery.holes.ranges)
            await cluster.until_same(1, 2)
            if has_hole:
                await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
                assert cluster.nodes[0].version == version + 2, "it went and came"
                return
        raise AssertionError("no power cut left a hole")

    run(2, use, OS)


def test_a_leader_keeps_what_is_behind_a_hole() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1))
        for seed in range(100):
            for _ in range(10):
                assert await cluster[1].write(bytes(20_000)).wait() is None
            await cluster[1].kill(Random(seed))
            await cluster[1].start()
            log = cluster[1].partition.log
            if (hole_offset := first_hole(log)) is not None:
                assert log.end_offset > hole_offset
                return
        raise AssertionError("no power cut left a hole")

    run(1, use, OS)


def test_a_follower_behind_the_start_of_the_leader_begins_anew_there() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        assert await cluster[1].write(b"a", b"b").wait() is None
        await cluster[2].kill()
        assert await cluster[1].write(b"c", b"d").wait() is None
        assert await cluster[1].write(b"e").wait() is None
        assert await deleted(cluster[1].replicas, "orders", 4, WAIT_MS) == 4
        await cluster[2].start()
        await cluster.until(lambda: cluster[2].partition.log.end_offset == 5)
        assert cluster[2].partition.log.start_offset == 4
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
        await cluster.until_same(1, 2)

    run(2, use)


def test_a_new_replica_of_a_log_that_starts_within_a_batch_has_that_batch() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1))
        assert await cluster[1].write(b"a", b"b").wait() is None
        assert await cluster[1].write(b"c", b"d", b"e").wait() is None
        assert await deleted(cluster[1].replicas, "orders", 3, WAIT_MS) == 3
        state = cluster.nodes[0].state
        await cluster.decide(type(state)(1, 0, (1,), (1, 2), adding=(2,)))
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
        log = cluster[2].partition.log
        await cluster.until(lambda: (log.start_offset, log.end_offset) == (3, 5))
        await cluster.until_same(1, 2)

    run(2, use)


def test_a_partition_that_is_new_to_a_fetcher_does_not_wait_as_long_as_the_others_do() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        assert await cluster[1].write(b"a").wait() is None
        # Its fetch is held by the leader now.
        await asyncio.sleep(0.1)
        await cluster.decide(led_by(1, 1, 2), partition=1)
        began = asyncio.get_running_loop().time()
        assert await cluster[1].write(b"b", partition=1).wait() is None
        assert asyncio.get_running_loop().time() - began < PATIENT.replica_fetch_wait_max_ms / 2000

    run(2, use, settings=PATIENT)


def test_one_that_waits_for_its_disk_does_not_hold_up_the_others() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        await cluster.decide(led_by(1, 1, 2), partition=1)
        for _ in range(3):
            # It waited for these too, for a moment that is over before the next begins.
            for partition in (0, 1):
                assert await cluster[1].write(b"a", partition=partition).wait() is None
            cluster[2].disk.hold_syncs_of("/partition-0/")
            held = cluster[1].write(b"x" * 100_000)
            began = asyncio.get_running_loop().time()
            for _ in range(3):
                assert await cluster[1].write(b"y" * 100_000, partition=1).wait() is None
            assert asyncio.get_running_loop().time() - began < PATIENT.replica_fetch_wait_max_ms / 2000
            assert not held.done
            cluster[2].disk.syncs_may_run.set()
            assert await held.wait() is None

    run(2, use, settings=PATIENT)


def test_below_min_isr_nothing_is_committed() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2, isr=(1,), min_isr=2))
        cluster[2].cut_off(1)
        assert cluster[1].partition.lacks_replicas
        committed = cluster[1].write(b"a")
        await asyncio.sleep(0.05)
        assert not committed.done
        cluster.tell_brokers()
        assert await committed.wait() is None

    run(2, use)


def test_a_replica_that_is_added_gets_all_and_one_that_is_removed_keeps_nothing() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        for number in range(10):
            committed = cluster[1].write(b"%d" % number)
        assert await committed.wait() is None
        state = cluster.nodes[0].state
        moving = type(state)(1, 0, (1, 2), (1, 2, 3), adding=(3,), removing=(2,))
        await cluster.decide(moving)
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2, 3))
        await cluster.until_same(1, 2, 3)
        await cluster.decide(type(state)(1, 1, (1, 3), (1, 3)))
        assert isinstance(cluster[2].replicas.find("orders", 0), Refused)
        assert not cluster[2].memory.exists("/data/topics/orders/partition-0")
        assert await cluster[1].write(b"after").wait() is None
        await cluster.until_same(1, 3)

    run(3, use)


RATE = 400_000
FETCHES = ReplicationSettings(replica_fetch_wait_max_ms=200, replica_fetch_max_bytes=20_000)
GETS = replace(FETCHES, follower_replication_throttled_rate=RATE)
GIVES = replace(FETCHES, leader_replication_throttled_rate=RATE)
COMES = PartitionState(1, 0, (1,), (1, 2), adding=(2,))


@pytest.mark.parametrize(
    ("settings", "state", "config"),
    [
        (GETS, COMES, {}),
        (GIVES, COMES, {}),
        (FETCHES, PartitionState(1, 0, (1,), (1, 2), adding=(2,), throttled_rate=RATE), {}),
        (GETS, PartitionState(1, 0, (1,), (1, 2)), {"follower.replication.throttled.replicas": "0:2"}),
        (GIVES, PartitionState(1, 0, (1,), (1, 2)), {"leader.replication.throttled.replicas": "*"}),
    ],
    ids=["what-it-gets", "what-it-gives", "by-this-move", "named-at-the-follower", "named-at-the-leader"],
)
def test_what_is_moved_here_comes_no_faster_than_it_may(
    settings: ReplicationSettings, state: PartitionState, config: dict[str, str]
) -> None:
    async def use(cluster: Cluster) -> None:
        rate, cluster.config = RATE, config
        await cluster.decide(led_by(1, 1))
        for _ in range(20):
            committed = cluster[1].write(b"x" * 10_000)
        assert await committed.wait() is None
        loop = asyncio.get_running_loop()
        began = loop.time()
        await cluster.decide(state)
        await cluster.until(lambda: cluster.nodes[0].state.isr == (1, 2))
        seconds, size = loop.time() - began, cluster[2].partition.log.size_bytes
        assert size >= 200_000
        assert size <= rate * seconds * 1.2 + settings.replica_fetch_max_bytes
        # Now it is a replica like any other, also as long as its move has not ended.
        await cluster.decide(type(state)(1, 1, (1, 2), (1, 2), adding=(2,), throttled_rate=RATE))
        began = loop.time()
        for _ in range(50):
            committed = cluster[1].write(b"y" * 20_000)
        assert await committed.wait() is None
        assert loop.time() - began < 1_000_000 / rate

    run(2, use, settings=settings)


def test_a_log_that_failed_does_not_hold_up_the_others() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        await cluster.decide(led_by(1, 1, 2), partition=1)
        for partition in (0, 1):
            assert await cluster[1].write(b"a", partition=partition).wait() is None
        cluster[2].disk.fail("sync", errno.EIO, path_part="/partition-0/")
        cluster[1].write(b"x" * 100_000)
        await cluster.until(lambda: cluster[2].partition.log.failure is not None)
        for _ in range(5):
            assert await cluster[1].write(b"y", partition=1).wait() is None
        cluster[2].disk.heal()

    run(2, use, settings=PATIENT)


def test_what_another_process_with_the_same_id_registered_is_not_fetched_for() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        assert await cluster[1].write(b"a").wait() is None
        # A replacement of broker 2 has registered: what the old process has, it has not.
        mine, cluster[2].epoch = cluster[2].epoch, cluster.next_epoch()
        cluster.tell_brokers()
        cluster.takes_changes = False
        committed = cluster[1].write(b"b")
        await asyncio.sleep(0.05)
        assert not committed.done
        cluster[2].epoch = mine
        cluster.tell_brokers()

    run(2, use)
