"""A follower's long poll: one answer for all that a turn of the loop brings, and no look at what has nothing new."""

from __future__ import annotations

import asyncio
import gc

from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world

from penstock.broker.api import Caller
from penstock.broker.apis.fetch import Fetch
from penstock.broker.fetch_limits import FollowerLimits
from penstock.broker.fetch_read import FetchRead, read_again, read_all
from penstock.broker.fetch_readers import FollowerReader
from penstock.broker.fetch_sessions import FetchSessions, Wanted
from penstock.broker.fetch_usage import FetchUsage
from penstock.broker.fetch_wait import FetchWait
from penstock.broker.reply_memory import ReplyMemory
from penstock.cluster.core.image import Image, PartitionImage, TopicImage
from penstock.config.replication import ReplicationSettings
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.move_throttles import MoveThrottles, Side
from penstock.replication.partition import Partition
from penstock.telemetry.usage import Usage
from penstock.units import MIB
from penstock.wire.fetch import FetchRequest, PartitionFetch, TopicFetch
from penstock.wire.fetched import FetchResponse

LONG_MS = 1000
OS = {"flush.policy": "os"}


def wanted(topic: str) -> Wanted:
    return Wanted("", topic_id(topic), 0, 0, MIB, 0, -1, 0)


def test_what_comes_in_one_turn_is_one_answer_to_a_follower() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            orders, invoices = await node.partition("orders"), await node.partition("invoices")
            seen: list[tuple[int, int]] = []
            finished = asyncio.Event()

            def finish() -> None:
                seen.append((orders.log.end_offset, invoices.log.end_offset))
                finished.set()

            wait = FetchWait([orders, invoices], 1, finish, appends=True)
            wait.arm(node.clock, LONG_MS)
            node.write(orders, b"first")
            node.write(orders, b"second")
            node.write(invoices, b"third")
            await finished.wait()
            assert seen == [(2, 1)]
            node.write(orders, b"for the next one")
            node.clock.advance(LONG_MS)
            await asyncio.sleep(0)
            assert seen == [(2, 1)]

    asyncio.run(life())


def test_what_has_nothing_new_is_told_with_its_high_watermark_and_what_has_ended_is_refused() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            names = ("busy", "quiet", "ended")
            busy, quiet, ended = [await node.partition(name, OS) for name in names]
            settings = ReplicationSettings(), TopicReplicationSettings()
            throttles = MoveThrottles(Image("cluster", 1, []), *settings, Side.LEADER)
            limits = FollowerLimits(throttles, 2, node.clock)
            reader = FollowerReader(2, 0, 1, limits, node.clock.now_ms())
            reader.told()
            before = read_all(
                node.replicas, [wanted(name) for name in names], FetchRead(MIB, MIB, 1, to_end=True), reader
            )
            assert (before.size, before.failed) == (0, False)
            node.write(busy, b"news")
            quiet.high_watermark = 5
            ended.let_go(Refused(Problem.NOT_LEADER, "another leads"))
            found = read_again(node.replicas, before, FetchRead(MIB, MIB, 1, to_end=True), reader)
            assert [bool(row.records) for row in found.rows] == [True, False, False]
            assert [row.high_watermark for row in found.rows][:2] == [1, 5]
            assert [row.refused and row.refused.problem for row in found.rows] == [None, None, Problem.NOT_LEADER]
            assert found.size == busy.log.size_bytes

    asyncio.run(life())


async def followed(node: World, topic: str) -> Partition:
    """By broker 2, which is in sync."""
    image = PartitionImage(PartitionState(1, 0, (1, 2), (1, 2)), 0)
    await node.replicas.open_topic(TopicImage(topic, topic_id(topic), (image,), OS))
    partition = node.replicas.find(topic, 0)
    assert isinstance(partition, Partition)
    return partition


def fetch_of(node: World, caller: Caller, **offsets: int) -> FetchResponse | Later[FetchResponse]:
    """By broker 2."""
    image = Image("cluster", 1, [])
    throttles = MoveThrottles(image, ReplicationSettings(), TopicReplicationSettings(), Side.LEADER)
    usage = FetchUsage(Usage(10).of_api("Fetch"))
    fetch = Fetch(node.replicas, image, FetchSessions(), ReplyMemory(MIB), throttles, usage, node.pool, node.clock)
    topics = [
        TopicFetch("", topic_id(topic), [PartitionFetch(0, 0, offset, 0 if offset else -1, 0, MIB)])
        for topic, offset in offsets.items()
    ]
    return fetch.start(FetchRequest(2, -1, LONG_MS, 1, MIB, 0, 0, -1, topics, [], "", None), caller)


def test_who_needs_a_followers_next_fetch_by_its_last_one_gets_it_at_once() -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            asked, questions = await followed(node, "asked"), await followed(node, "questions")
            node.write(questions, b"asked")
            confirmed: list[object] = []

            def ask(_: object) -> None:
                later = asked.confirmations.ask(asked.leadership, node.clock.now_ms())
                later.when_done(confirmed.append)

            questions.when_committed(1).when_done(ask)
            caller = Caller("", "", 0)
            assert isinstance(fetch_of(node, caller, asked=0, questions=1), FetchResponse)
            for _ in range(2):
                assert not confirmed
                fetch_of(node, caller, asked=0, questions=1)
            assert confirmed

    asyncio.run(life())


def test_answers_of_polls_that_are_over_are_gone_without_the_collector() -> None:
    """They hold records, and nothing counts them while they wait for it."""

    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            orders = await followed(node, "orders")
            for offset in range(3):
                answer = fetch_of(node, Caller("", "", 0), orders=offset)
                assert isinstance(answer, Later)
                node.write(orders, b"news")
                while not answer.done:
                    await asyncio.sleep(0)
                assert answer.result().topics
            caller = Caller("", "", 0)
            answer = fetch_of(node, caller, orders=3)
            assert isinstance(answer, Later)
            assert caller.when_gone is not None
            caller.when_gone()
            assert answer.done
            del answer
            # The clock keeps what was cancelled until it is due.
            node.clock.advance(LONG_MS)
            assert not [each for each in gc.get_objects() if isinstance(each, FetchResponse | FetchWait)]

    gc.collect()
    gc.disable()
    try:
        asyncio.run(life())
    finally:
        gc.enable()
