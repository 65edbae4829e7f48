"""The journal at work: one sync for many partitions, and what happens when it cannot be used."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.world import DATA, WAIT_S, World, values_in, world
from tests.storage.journaled_node import JournaledNode, NothingKept

from penstock.errors import Refused
from penstock.later import Later
from penstock.replication.commit_thread import CommitThread
from penstock.replication.partition import Committed, Partition
from penstock.storage.core.journal_entry import PAGE_BYTES
from penstock.storage.journal import RETRY_MS
from penstock.storage.log import Appended
from penstock.units import MINUTE_MS


async def journaled(node: World, *topics: str) -> list[Partition]:
    """Each has been written to once, which makes the name of its segment last, and the journal is in use."""
    partitions = [await node.partition(topic) for topic in topics]
    for partition in partitions:
        node.write(partition, b"first")
    await node.flusher.drained(partitions)
    node.flusher.journal.start()
    return partitions


def committed(node: World, partition: Partition, *values: bytes) -> Later[Committed]:
    appended = node.write(partition, *values)
    assert isinstance(appended, Appended), appended
    return partition.when_committed(appended.next_offset)


async def all_of(waiting: Sequence[Later[Committed]]) -> None:
    async with asyncio.timeout(WAIT_S):
        for answer in waiting:
            assert await answer.wait() is None


async def until_synced(node: World, partition: Partition, offset: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while partition.log.synced_offset < offset:
            await asyncio.sleep(0.001)


def test_what_many_partitions_get_in_one_turn_takes_one_sync() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partitions = await journaled(node, *(f"t{number}" for number in range(16)))
            before = node.disk.count("sync")
            await all_of([committed(node, partition, b"a") for partition in partitions])
            assert node.disk.count("sync") - before == node.disk.count("sync", "/journal/") == 1
            assert all(values_in(partition) == [b"first", b"a"] for partition in partitions)
            assert all(partition.log.synced_offset == 1 for partition in partitions)

    asyncio.run(life())


def test_what_comes_while_an_entry_is_written_shares_the_next() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            one, two = await journaled(node, "one", "two")
            node.disk.syncs_may_run.clear()
            waiting = [committed(node, one, b"a")]
            for number in range(50):
                await asyncio.sleep(0)
                waiting.append(committed(node, two if number % 2 else one, b"%d" % number))
            assert not any(answer.done for answer in waiting)
            assert values_in(one) == [b"first"]
            node.disk.syncs_may_run.set()
            await all_of(waiting)
            assert node.disk.count("sync", "/journal/") == 2
            assert (len(values_in(one)), len(values_in(two))) == (27, 26)

    asyncio.run(life())


def test_a_bug_that_one_partition_meets_is_not_for_others_of_the_entry() -> None:
    def meet_a_bug(_: Later[Committed]) -> None:
        raise ZeroDivisionError("a bug")

    async def life() -> None:
        bugs: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: bugs.append(context["exception"]))
        async with world(PowerCutDisk()) as node:
            first, *others = await journaled(node, "first", "second", "third")
            node.disk.syncs_may_run.clear()
            committed(node, first, b"a").when_done(meet_a_bug)
            waiting = [committed(node, partition, b"a") for partition in others]
            await asyncio.sleep(0)
            later = committed(node, first, b"b")
            node.disk.syncs_may_run.set()
            await all_of([*waiting, later])
            assert [type(bug) for bug in bugs] == [ZeroDivisionError]

    asyncio.run(life())


def test_more_than_one_entry_holds_goes_into_several() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partitions = await journaled(node, *(f"t{number}" for number in range(40)))
            waiting = [committed(node, partition, b"x" * 15_000) for partition in partitions for _ in range(4)]
            await all_of(waiting)
            assert node.disk.count("sync", "/journal/") == 3
            assert all(partition.log.synced_offset == 1 for partition in partitions)

    asyncio.run(life())


def test_a_large_batch_syncs_its_own_files_beside_the_journal() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            bulk, small = await journaled(node, "bulk", "small")
            await all_of([committed(node, bulk, b"x" * 100_000), committed(node, small, b"a")])
            assert (bulk.log.synced_offset, small.log.synced_offset, small.log.durable_offset) == (2, 1, 2)
            await all_of([committed(node, bulk, b"small again")])
            assert (bulk.log.synced_offset, bulk.log.durable_offset) == (2, 3)

    asyncio.run(life())


def test_who_waits_for_a_journal_that_fails_is_served_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            before, during = await journaled(node, "before", "during")
            await all_of([committed(node, before, b"in the journal alone")])
            node.disk.fail("sync", path_part="/journal/")
            await all_of([committed(node, during, b"a")])
            assert during.log.synced_offset == 2
            await until_synced(node, before, 2)
            node.disk.heal()
            tried = node.disk.count("write", "/journal/")
            await all_of([committed(node, before, b"b"), committed(node, during, b"c")])
            assert node.disk.count("write", "/journal/") == tried, "not before the next start"
            assert (before.log.synced_offset, during.log.synced_offset) == (3, 3)
        assert [record.getMessage() for record in caplog.records] == ["journal.failed"]

    asyncio.run(life())


def test_what_only_a_journal_that_fails_has_is_synced_behind_the_sync_that_is_running() -> None:
    """Nobody waits for it, so nothing else would soon."""

    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            one, two = await journaled(node, "one", "two")
            node.disk.hold_syncs_of("/one/")
            node.flusher.request(one, checkpoint=True)
            await asyncio.sleep(0)
            await all_of([committed(node, one, b"in the journal alone")])
            assert (one.log.synced_offset, one.log.durable_offset) == (1, 2)
            node.disk.fail("sync", path_part="/journal/")
            await all_of([committed(node, two, b"a")])
            node.disk.syncs_may_run.set()
            await until_synced(node, one, 2)

    asyncio.run(life())


def test_a_journal_without_room_is_tried_again_when_there_may_be_some() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            (partition,) = await journaled(node, "orders")
            node.disk.fail("write", errno.ENOSPC, path_part="/journal/")
            await all_of([committed(node, partition, b"a")])
            await all_of([committed(node, partition, b"b")])
            assert partition.log.synced_offset == 3
            node.disk.heal()
            node.clock.advance(RETRY_MS)
            await all_of([committed(node, partition, b"c")])
            assert (partition.log.synced_offset, partition.log.durable_offset) == (3, 4)

    asyncio.run(life())


def test_logs_sync_in_the_background_before_the_journal_needs_their_file() -> None:
    async def life() -> None:
        async with world(PowerCutDisk(), journal_bytes=8 * PAGE_BYTES) as node:
            quiet, busy = await journaled(node, "quiet", "busy")
            await all_of([committed(node, quiet, b"a")])
            for _ in range(8):
                await all_of([committed(node, busy, b"x")])
            await until_synced(node, quiet, 2)
            for _ in range(40):
                await all_of([committed(node, busy, b"x")])
            assert node.flusher.journal.laps >= 2

    asyncio.run(life())


def test_a_log_that_holds_up_the_journal_holds_up_no_other() -> None:
    async def life() -> None:
        async with world(PowerCutDisk(), journal_bytes=4 * PAGE_BYTES) as node:
            bad, good = await journaled(node, "bad", "good")
            await all_of([committed(node, bad, b"promised")])
            node.disk.fail("sync", path_part="/bad/")
            for _ in range(30):
                await all_of([committed(node, good, b"x")])
            assert node.flusher.journal.is_blocked
            assert bad.log.failure is not None
            assert (values_in(bad), len(values_in(good))) == ([b"first", b"promised"], 31)
            assert good.log.synced_offset > 10, "it syncs for itself"

    asyncio.run(life())


def test_a_deleted_topic_does_not_hold_up_the_journal() -> None:
    async def life() -> None:
        async with world(PowerCutDisk(), journal_bytes=4 * PAGE_BYTES) as node:
            doomed, busy = await journaled(node, "doomed", "busy")
            await all_of([committed(node, doomed, b"a")])
            await node.replicas.drop_topic("doomed")
            assert node.flusher.journal.unsynced() == []
            for _ in range(20):
                await all_of([committed(node, busy, b"x")])
            assert node.flusher.journal.laps >= 2

    asyncio.run(life())


def test_a_deleted_topic_is_dropped_behind_the_entry_that_it_is_in() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            doomed, other = await journaled(node, "doomed", "other")
            node.disk.syncs_may_run.clear()
            waiting = [committed(node, doomed, b"a"), committed(node, other, b"b")]
            await asyncio.sleep(0)
            dropping = asyncio.ensure_future(node.replicas.drop_topic("doomed"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not dropping.done()
            node.disk.syncs_may_run.set()
            await dropping
            assert isinstance(waiting[0].result(), Refused)
            assert await waiting[1].wait() is None
            assert node.flusher.journal.unsynced() == [other.log]

    asyncio.run(life())


def test_an_idle_log_writes_down_what_only_the_journal_has() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            (partition,) = await journaled(node, "orders")
            await all_of([committed(node, partition, b"a")])
            node.flusher.request(partition)
            await node.flusher.drained([partition])
            assert partition.log.synced_offset == 1, "not before it is idle"
            node.clock.advance(MINUTE_MS)
            node.flusher.request(partition)
            await node.flusher.drained([partition])
            assert partition.log.synced_offset == 2
            assert node.disk.exists(f"{partition.log.directory}/checkpoint")

    asyncio.run(life())


def test_a_clean_stop_leaves_nothing_in_the_journal() -> None:
    memory = PowerCutDisk()

    async def life() -> None:
        async with world(memory) as node:
            (partition,) = await journaled(node, "orders")
            await all_of([committed(node, partition, b"a")])

    async def next_life() -> None:
        async with world(memory) as node:
            partition = await node.partition("orders")
            assert node.disk.count("read", "/journal/") == 1, "one page tells that there is nothing"
            assert partition.log.recovery.scanned_bytes == 0
            assert values_in(partition) == [b"first", b"a"]

    asyncio.run(life())
    asyncio.run(next_life())


def test_the_thread_hands_over_what_goes_wrong_and_goes_on() -> None:
    async def life() -> None:
        loop = asyncio.get_running_loop()
        thread = CommitThread(loop, "test")
        errors: asyncio.Queue[BaseException | None] = asyncio.Queue()
        bug = ValueError("a bug")

        def work() -> None:
            raise bug

        thread.run(work, lambda error, seconds: errors.put_nowait(error))
        thread.run(lambda: None, lambda error, seconds: errors.put_nowait(error))
        async with asyncio.timeout(WAIT_S):
            assert [await errors.get(), await errors.get()] == [bug, None]
        thread.close()

    asyncio.run(life())


def test_what_only_the_journal_has_of_a_topic_that_is_set_aside_at_start_is_set_aside_with_it() -> None:
    """The store may have lost it: then somebody brings the topic back, and its directory, within the hour."""
    before = JournaledNode("orders")
    before.write("orders", b"acknowledged")
    before.commit()
    before.memory.cut_power(NothingKept())

    async def start_without_it() -> None:
        async with world(before.memory) as node:
            await node.replicas.remove_strangers(set())
            node.flusher.journal.start()

    asyncio.run(start_without_it())
    (kept,) = before.memory.list_directory(f"{DATA}/deleted")
    before.memory.rename(f"{DATA}/deleted/{kept}/orders", f"{DATA}/topics/orders")
    before.open()
    assert before.batches("orders") == 2


def test_a_topic_that_is_set_aside_has_what_only_the_journal_had() -> None:
    """The store may have lost it: then somebody brings the topic back, and its directory, within the hour."""
    memory = PowerCutDisk()

    async def set_aside() -> None:
        async with world(memory) as node:
            (partition,) = await journaled(node, "orders")
            await all_of([committed(node, partition, b"acknowledged")])
            assert partition.log.durable_offset > partition.log.synced_offset
            await node.replicas.drop_topic("orders", keep=True)

    async def brought_back() -> list[bytes]:
        async with world(memory) as node:
            return values_in(await node.partition("orders"))

    asyncio.run(set_aside())
    memory.cut_power(NothingKept())
    (kept,) = memory.list_directory(f"{DATA}/deleted")
    memory.rename(f"{DATA}/deleted/{kept}/orders", f"{DATA}/topics/orders")
    assert asyncio.run(brought_back()) == [b"first", b"acknowledged"]
