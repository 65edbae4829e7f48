"""Group commit: few syncs for many appends, and what follows from one that fails."""

from __future__ import annotations

import asyncio
import errno

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.world import SYNC_THREADS, WAIT_S, values_in, world

from penstock.errors import Problem, Refused
from penstock.storage.log import Appended
from penstock.units import MINUTE_MS


def next_offset(appended: Appended | Refused) -> int:
    assert isinstance(appended, Appended), appended
    return appended.next_offset


def test_what_comes_while_the_disk_works_shares_the_next_sync() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition()
            node.disk.syncs_may_run.clear()
            waiting = [partition.when_committed(next_offset(node.write(partition, b"first")))]
            before = node.disk.count("sync", "/orders/")
            for number in range(100):
                waiting.append(partition.when_committed(next_offset(node.write(partition, b"%d" % number))))
                # Each in a turn of the loop of its own, as they come from different clients.
                await asyncio.sleep(0)
            assert not any(answer.done for answer in waiting)
            assert values_in(partition) == []
            node.disk.syncs_may_run.set()
            async with asyncio.timeout(WAIT_S):
                assert await waiting[-1].wait() is None
            assert all(answer.done for answer in waiting)
            assert node.disk.count("sync", "/orders/") - before <= 2
            assert len(values_in(partition)) == 101

    asyncio.run(life())


def test_a_sync_that_has_to_wait_for_others_begins_with_what_came_meanwhile() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            ahead = [await node.partition(f"ahead-{number}") for number in range(SYNC_THREADS)]
            partition = await node.partition()
            before = node.disk.count("sync", "/orders/")
            node.disk.syncs_may_run.clear()
            others = [each.when_committed(next_offset(node.write(each, b"a"))) for each in ahead]
            waiting = []
            for number in range(10):
                waiting.append(partition.when_committed(next_offset(node.write(partition, b"%d" % number))))
                await asyncio.sleep(0)
            drained = asyncio.create_task(node.flusher.drained([partition]))
            await asyncio.sleep(0)
            assert not drained.done()
            node.disk.syncs_may_run.set()
            assert [await answer.wait() for answer in (*others, *waiting)] == [None] * (SYNC_THREADS + 10)
            await drained
            assert node.disk.count("sync", "/orders/") - before == 1
            assert len(values_in(partition)) == 10

    asyncio.run(life())


def test_a_log_that_cannot_be_synced_waits_for_no_other() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            busy = [await node.partition(f"busy-{number}") for number in range(SYNC_THREADS)]
            failed = await node.partition("failed")
            node.disk.syncs_may_run.clear()
            for each in busy:
                node.write(each, b"a")
            await asyncio.sleep(0)
            failed.log.fail("a disk that is gone")
            node.flusher.request(failed, checkpoint=True)
            await node.flusher.drained([failed])
            assert not any(each.log.synced_offset for each in busy)

    asyncio.run(life())


def test_who_drains_a_log_that_is_to_be_truncated_waits_for_no_other_although_it_was_queued() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            busy = [await node.partition(f"busy-{number}") for number in range(SYNC_THREADS)]
            queued = await node.partition("queued")
            node.disk.syncs_may_run.clear()
            for each in (*busy, queued):
                node.write(each, b"a")
            await asyncio.sleep(0)
            queued.settled.clear()
            await node.flusher.drained([queued])
            assert not any(each.log.synced_offset for each in (*busy, queued))
            queued.settled.set()
            node.flusher.request(queued)
            node.disk.syncs_may_run.set()
            await node.flusher.drained([*busy, queued])
            assert all(each.log.synced_offset for each in (*busy, queued))

    asyncio.run(life())


def test_a_log_with_nothing_to_sync_waits_for_no_other() -> None:
    """Housekeeping asks for all of them, and who drains one would wait."""

    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            busy = [await node.partition(f"busy-{number}") for number in range(SYNC_THREADS)]
            idle = await node.partition("idle")
            node.write(idle, b"a")
            await node.flusher.drained([idle])
            node.disk.syncs_may_run.clear()
            for each in busy:
                node.write(each, b"a")
            await asyncio.sleep(0)
            node.flusher.request(idle)
            await node.flusher.drained([idle])
            assert not any(each.log.synced_offset for each in busy)

    asyncio.run(life())


def test_a_slow_sync_of_one_log_does_not_hold_up_another() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            slow, quick = await node.partition("slow"), await node.partition("quick", {"flush.policy": "os"})
            node.disk.syncs_may_run.clear()
            stuck = slow.when_committed(next_offset(node.write(slow, b"a")))
            assert quick.when_committed(next_offset(node.write(quick, b"b"))).done
            assert values_in(quick) == [b"b"]
            assert not stuck.done
            node.disk.syncs_may_run.set()
            async with asyncio.timeout(WAIT_S):
                assert await stuck.wait() is None

    asyncio.run(life())


def test_a_failed_sync_ends_its_log_and_no_other() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            bad, good = await node.partition("bad"), await node.partition("good")
            node.write(bad, b"safe")
            await node.flusher.drained(list(node.replicas))
            node.disk.fail("sync", path_part="/bad/")
            node.disk.syncs_may_run.clear()
            lost = [bad.when_committed(next_offset(node.write(bad, value))) for value in (b"x", b"y")]
            kept = good.when_committed(next_offset(node.write(good, b"z")))
            node.disk.syncs_may_run.set()
            async with asyncio.timeout(WAIT_S):
                for answer in lost:
                    refused = await answer.wait()
                    assert isinstance(refused, Refused) and refused.problem is Problem.STORAGE_FAILED
                assert await kept.wait() is None
                await node.flusher.drained(list(node.replicas))
            node.disk.heal()
            later = node.write(bad, b"never again")
            assert isinstance(later, Refused) and later.problem is Problem.STORAGE_FAILED
            assert (values_in(bad), values_in(good)) == ([b"safe"], [b"z"])

    asyncio.run(life())


def test_a_sync_that_cannot_begin_is_said_and_comes_with_the_next_request(caplog: pytest.LogCaptureFixture) -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition, other = await node.partition(), await node.partition("other")
            waiting = partition.when_committed(next_offset(node.write(partition, b"a")))
            meanwhile = other.when_committed(next_offset(node.write(other, b"b")))
            assert partition.log.active is not None
            partition.log.active.release_file()
            node.disk.fail("open", errno.EMFILE, path_part="/orders/")
            await node.flusher.drained([partition])
            assert await meanwhile.wait() is None
            assert (waiting.done, partition.high_watermark, partition.log.failure) == (False, 0, None)
            (said,) = [record for record in caplog.records if record.getMessage() == "log.sync.postponed"]
            assert (vars(said)["topic"], "Too many open files" in vars(said)["why"]) == ("orders", True)
            node.disk.heal()
            # As housekeeping does now and then.
            node.flusher.request(partition)
            assert await waiting.wait() is None
            assert values_in(partition) == [b"a"]

    asyncio.run(life())


def test_no_sync_begins_on_a_log_that_is_being_truncated() -> None:
    """Its checkpoint would be written over the one that says where the log was cut."""

    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition = await node.partition()
            waiting = partition.when_committed(next_offset(node.write(partition, b"a")))
            node.flusher.request(partition, checkpoint=True)
            before = node.disk.count("sync", "")
            partition.settled.clear()
            await node.flusher.drained([partition])
            assert (node.disk.count("sync", "") - before, waiting.done) == (0, False)
            partition.settled.set()
            node.flusher.request(partition)
            assert await waiting.wait() is None

    asyncio.run(life())


def test_with_os_a_sync_comes_only_when_flush_messages_asks() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition(config={"flush.policy": "os", "flush.messages": "5"})
            for _ in range(4):
                node.write(partition, b"a")
            await node.flusher.drained(list(node.replicas))
            assert partition.log.synced_offset == 0
            node.write(partition, b"b")
            await node.flusher.drained(list(node.replicas))
            assert partition.log.synced_offset == 5

    asyncio.run(life())


def test_a_checkpoint_that_is_asked_for_during_a_sync_is_written_behind_it() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition()
            node.disk.syncs_may_run.clear()
            waiting = partition.when_committed(next_offset(node.write(partition, b"a")))
            await asyncio.sleep(0)
            assert not node.disk.exists(f"{partition.log.directory}/checkpoint")
            node.flusher.request(partition, checkpoint=True)
            await asyncio.sleep(0)
            node.disk.syncs_may_run.set()
            async with asyncio.timeout(WAIT_S):
                await node.flusher.drained(list(node.replicas))
            assert waiting.done
            assert node.disk.exists(f"{partition.log.directory}/checkpoint")

    asyncio.run(life())


def test_the_checkpoint_of_an_idle_log_that_fails_is_tried_again_but_not_at_once() -> None:
    async def life() -> None:
        memory = PowerCutDisk()
        async with asyncio.timeout(WAIT_S), world(memory) as node:
            partition = await node.partition()
            node.write(partition, b"a")
            await node.flusher.drained([partition])
            memory.fail_next("rename", errno.ENOSPC, times=2)
            written = []
            for _ in range(3):
                node.clock.advance(MINUTE_MS)
                for _ in range(2):
                    node.flusher.request(partition)
                    await node.flusher.drained([partition])
                written.append(node.disk.exists(f"{partition.log.directory}/checkpoint"))
            assert written == [False, False, True]

    asyncio.run(life())


def test_waiting_for_one_log_does_not_wait_for_others() -> None:
    async def scenario() -> None:
        async with world(PowerCutDisk()) as node:
            busy, quiet = await node.partition("busy"), await node.partition("quiet")
            node.disk.syncs_may_run.clear()
            node.write(busy, b"a")
            await asyncio.sleep(0)
            async with asyncio.timeout(WAIT_S):
                await node.flusher.drained([quiet])
            assert busy.high_watermark == 0

    asyncio.run(scenario())


def test_what_was_shown_under_os_is_on_disk_when_the_change_to_acked_is_answered() -> None:
    async def scenario() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition(config={"flush.policy": "os"})
            node.write(partition, b"a")
            assert (partition.high_watermark, partition.log.synced_offset) == (1, 0)
            await node.partition(config={"flush.policy": "acked"})
            assert partition.log.synced_offset == 1

    asyncio.run(scenario())


def test_a_change_of_settings_does_not_wait_for_a_pause_in_writing() -> None:
    async def scenario() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition()
            node.disk.syncs_may_run.clear()
            first = partition.when_committed(next_offset(node.write(partition, b"a")))
            # What comes behind it is on its way to the disk for as long as the test likes.
            first.when_done(lambda _: node.disk.syncs_may_run.clear())
            while not node.disk.being_synced:
                await asyncio.sleep(0)
            change = asyncio.create_task(node.partition(config={"retention.ms": "1000"}))
            await asyncio.sleep(0)
            second = partition.when_committed(next_offset(node.write(partition, b"b")))
            node.disk.syncs_may_run.set()
            async with asyncio.timeout(WAIT_S):
                await change
            assert first.done
            assert not second.done
            node.disk.syncs_may_run.set()

    asyncio.run(scenario())


def test_who_waits_is_told_when_a_later_append_ends_the_log() -> None:
    async def scenario() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition()
            node.disk.syncs_may_run.clear()
            waiting = partition.when_committed(next_offset(node.write(partition, b"a")))
            partition.log.fail("a write could not be undone")
            assert isinstance(node.write(partition, b"b"), Refused)
            async with asyncio.timeout(WAIT_S):
                refused = await waiting.wait()
            assert isinstance(refused, Refused) and refused.problem is Problem.STORAGE_FAILED

    asyncio.run(scenario())


def test_a_change_to_acked_does_not_wait_for_what_a_truncation_takes_back() -> None:
    """All that follows the metadata would wait with it, for as long as nothing is written to the topic."""

    async def scenario() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition(config={"flush.policy": "os"})
            node.write(partition, b"a")
            node.write(partition, b"b")
            # As `Settling` does when another replica is right about the end of the log.
            partition.settled.clear()
            change = asyncio.create_task(node.partition(config={"flush.policy": "acked"}))
            await asyncio.sleep(0)
            partition.log.truncate_to(1)
            partition.settled.set()
            node.flusher.request(partition)
            async with asyncio.timeout(WAIT_S):
                await change
            assert (partition.log.end_offset, partition.log.synced_offset) == (1, 1)

    asyncio.run(scenario())
