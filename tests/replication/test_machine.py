"""The runner of durable machines: replay, answers after the commit, parked ones, and a log that refuses."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.counter import (
    GIVEN_UP,
    PATIENCE_MS,
    Add,
    AddAndTell,
    Counter,
    CounterCodec,
    CounterDecision,
    Event,
    Note,
    Sum,
    WaitFor,
)
from tests.replication.world import WAIT_S, World, world

from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.core.machine import Tick
from penstock.replication.machine import RELOAD_DELAY_MS, MachineRunner
from penstock.replication.partition import Partition

Runner = MachineRunner[Event, int, int, Note]
Answer = Later[int | Refused]
CONFIG = {"cleanup.policy": "compact"}


@asynccontextmanager
async def counting(
    node: World, orders: list[object] | None = None, make: Callable[[], Counter] = Counter
) -> AsyncIterator[Runner]:
    """A runner that has replayed its log; what it is ordered to do is put there."""
    partition = await node.partition("__counter", CONFIG)
    is_ready = asyncio.Event()
    told: list[object] = [] if orders is None else orders
    runner: Runner = MachineRunner(
        partition,
        node.replicas,
        make,
        CounterCodec(),
        node.pool,
        node.clock,
        lambda _: is_ready.set(),
        lambda _, more: told.extend(more),
    )
    runner.start()
    async with asyncio.timeout(WAIT_S):
        await is_ready.wait()
    try:
        yield runner
    finally:
        runner.stop(Refused(Problem.COORDINATOR_NOT_AVAILABLE, "the test is over"))


def alive(memory: PowerCutDisk, use: Callable[[World, Runner], Awaitable[None]]) -> None:
    """One life of a process."""

    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(memory) as node, counting(node) as runner:
            await use(node, runner)

    asyncio.run(life())


async def until_serving(node: World, runner: Runner) -> None:
    async with asyncio.timeout(WAIT_S):
        while runner.unavailable is not None:
            node.clock.advance(RELOAD_DELAY_MS)
            await asyncio.sleep(0.001)


async def whatever_needs_no_disk() -> None:
    """Far more turns of the loop than an answer takes that does not wait for the disk."""
    for _ in range(20):
        await asyncio.sleep(0)


def problem_of(answer: Answer) -> Problem | None:
    result = answer.result()
    return result.problem if isinstance(result, Refused) else None


def test_a_machine_goes_on_where_its_log_ends() -> None:
    memory = PowerCutDisk()

    async def add(node: World, runner: Runner) -> None:
        for amount in (1, 2, 3):
            await runner.submit(Add(amount)).wait()

    async def look(node: World, runner: Runner) -> None:
        assert await runner.submit(Sum()).wait() == 6
        assert await runner.submit(Add(4)).wait() == 10

    alive(memory, add)
    alive(memory, look)


def test_while_it_replays_events_are_refused() -> None:
    memory = PowerCutDisk()

    async def use(node: World, runner: Runner) -> None:
        await runner.submit(Add(1)).wait()
        partition = await node.partition("__counter", CONFIG)
        other: Runner = MachineRunner(
            partition, node.replicas, Counter, CounterCodec(), node.pool, node.clock, lambda _: None
        )
        other.start()
        assert problem_of(other.submit(Sum())) is Problem.COORDINATOR_LOADING
        assert other.unavailable is not None
        while other.unavailable is not None:
            await asyncio.sleep(0.001)
        assert await other.submit(Sum()).wait() == 1
        other.stop(Refused(Problem.NOT_COORDINATOR, "over"))

    alive(memory, use)


def test_an_answer_waits_for_the_disk_and_so_does_that_of_a_reader_who_saw_it() -> None:
    async def use(node: World, runner: Runner) -> None:
        node.disk.syncs_may_run.clear()
        added, seen = runner.submit(Add(5)), runner.submit(Sum())
        await whatever_needs_no_disk()
        assert not added.done and not seen.done
        node.disk.syncs_may_run.set()
        assert (await added.wait(), await seen.wait()) == (5, 5)
        assert runner.submit(Sum()).done, "nothing to wait for"

    alive(PowerCutDisk(), use)


def test_a_parked_answer_comes_with_the_decision_that_releases_it_and_not_before_that_is_on_disk() -> None:
    async def use(node: World, runner: Runner) -> None:
        low, high = runner.submit(WaitFor(3)), runner.submit(WaitFor(10))
        await runner.submit(Add(2)).wait()
        assert not low.done
        node.disk.syncs_may_run.clear()
        added = runner.submit(Add(2))
        await whatever_needs_no_disk()
        assert not low.done
        node.disk.syncs_may_run.set()
        assert await added.wait() == 4
        assert low.result() == 4
        assert not high.done

    alive(PowerCutDisk(), use)


def drop_machine(node: World, runner: Runner) -> None:
    """By a write for which there is no room: the next machine has to replay."""
    node.disk.fill()
    assert problem_of(runner.submit(Add(1))) is Problem.COORDINATOR_NOT_AVAILABLE
    node.disk.make_room()


def test_an_order_is_given_when_it_is_on_disk_and_never_by_a_machine_that_does_not_serve() -> None:
    async def life() -> None:
        orders: list[object] = []
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node, counting(node, orders) as runner:
            node.disk.syncs_may_run.clear()
            first = runner.submit(AddAndTell(2))
            await whatever_needs_no_disk()
            assert not orders
            node.disk.syncs_may_run.set()
            await first.wait()
            assert orders == [2]
            node.disk.syncs_may_run.clear()
            second = runner.submit(AddAndTell(3))
            await whatever_needs_no_disk()
            drop_machine(node, runner)
            node.disk.syncs_may_run.set()
            assert await second.wait() == 5
            assert orders == [2], "the next machine knows what is to do"

    asyncio.run(life())


def test_a_machine_serves_when_all_that_the_one_before_wrote_is_on_disk() -> None:
    """Else it would have done what nobody decided for good."""

    async def use(node: World, runner: Runner) -> None:
        node.disk.syncs_may_run.clear()
        first = runner.submit(AddAndTell(2))
        await whatever_needs_no_disk()
        drop_machine(node, runner)
        for _ in range(50):
            node.clock.advance(RELOAD_DELAY_MS)
            await asyncio.sleep(0.001)
            assert runner.machine is None
        assert not first.done
        node.disk.syncs_may_run.set()
        await until_serving(node, runner)
        assert await runner.submit(Sum()).wait() == 2

    alive(PowerCutDisk(), use)


def test_a_deadline_of_the_machine_is_kept() -> None:
    async def use(node: World, runner: Runner) -> None:
        waiting = runner.submit(WaitFor(3))
        node.clock.advance(PATIENCE_MS - 1000)
        await asyncio.sleep(0)
        assert not waiting.done
        node.clock.advance(2000)
        assert await waiting.wait() == GIVEN_UP

    alive(PowerCutDisk(), use)


class TickingWithABug(Counter):
    def __init__(self) -> None:
        super().__init__()
        self.is_mended = False

    def decide(self, event: Event | Tick, now_ms: int) -> CounterDecision:
        if isinstance(event, Tick) and not self.is_mended:
            raise ZeroDivisionError("a bug")
        return super().decide(event, now_ms)


def test_a_deadline_at_which_the_machine_meets_a_bug_is_not_the_last() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node, counting(node, make=TickingWithABug) as runner:
            waiting = runner.submit(WaitFor(3))
            with pytest.raises(ZeroDivisionError):
                node.clock.advance(PATIENCE_MS)
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    node.clock.advance(RELOAD_DELAY_MS)
            assert isinstance(runner.machine, TickingWithABug)
            runner.machine.is_mended = True
            assert not waiting.done
            node.clock.advance(RELOAD_DELAY_MS)
            assert waiting.result() == GIVEN_UP

    asyncio.run(life())


def test_a_refused_append_changes_nothing_and_the_machine_comes_back() -> None:
    memory = PowerCutDisk()

    async def use(node: World, runner: Runner) -> None:
        await runner.submit(Add(7)).wait()
        waiting = runner.submit(WaitFor(100))
        node.disk.fill()
        refused = runner.submit(Add(1))
        assert problem_of(refused) is Problem.COORDINATOR_NOT_AVAILABLE
        assert problem_of(waiting) is Problem.COORDINATOR_NOT_AVAILABLE, "whoever waited asks again"
        assert problem_of(runner.submit(Sum())) is Problem.COORDINATOR_NOT_AVAILABLE
        node.disk.make_room()
        await until_serving(node, runner)
        assert await runner.submit(Sum()).wait() == 7
        assert await runner.submit(Add(1)).wait() == 8

    alive(memory, use)


def test_a_machine_that_is_dropped_again_and_again_is_said_once_and_when_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def said(event: str) -> list[int]:
        return [vars(record)["times"] for record in caplog.records if record.getMessage() == event]

    async def use(node: World, runner: Runner) -> None:
        caplog.set_level(logging.INFO)
        await runner.submit(Add(7)).wait()
        node.disk.fill()
        for _ in range(5):
            assert problem_of(runner.submit(Add(1))) is Problem.COORDINATOR_NOT_AVAILABLE
            await until_serving(node, runner)
            await runner.submit(Sum()).wait()
        assert (said("machine.dropped"), said("machine.works.again")) == ([1], [])
        node.disk.make_room()
        for _ in range(2):
            await runner.submit(Add(1)).wait()
        assert (said("machine.dropped"), said("machine.works.again")) == ([1], [5])

    alive(PowerCutDisk(), use)


def test_a_dropped_machine_answers_nobody_of_the_next_one() -> None:
    async def use(node: World, runner: Runner) -> None:
        first = runner.submit(WaitFor(5))
        node.disk.syncs_may_run.clear()
        released = runner.submit(Add(5))
        await whatever_needs_no_disk()
        node.disk.fill()
        assert problem_of(runner.submit(Add(1))) is Problem.COORDINATOR_NOT_AVAILABLE
        assert problem_of(first) is Problem.COORDINATOR_NOT_AVAILABLE
        node.disk.make_room()
        node.disk.syncs_may_run.set()
        await until_serving(node, runner)
        # The new machine gives it the ticket that the old one would have released.
        second = runner.submit(WaitFor(1000))
        assert await released.wait() == 5
        await runner.submit(Add(1)).wait()
        assert not second.done

    alive(PowerCutDisk(), use)


def test_a_failed_sync_leaves_no_machine_that_believes_in_what_may_be_lost() -> None:
    memory = PowerCutDisk()

    async def use(node: World, runner: Runner) -> None:
        assert await runner.submit(Add(7)).wait() == 7
        node.disk.fail("sync", errno.EIO, path_part="/__counter/")
        lost = runner.submit(Add(1))
        assert isinstance(await lost.wait(), Refused)
        node.disk.heal()
        for _ in range(3):
            node.clock.advance(RELOAD_DELAY_MS)
            await asyncio.sleep(0.005)
            assert problem_of(runner.submit(Sum())) in (Problem.COORDINATOR_NOT_AVAILABLE, Problem.COORDINATOR_LOADING)

    async def look(node: World, runner: Runner) -> None:
        assert await runner.submit(Sum()).wait() in (7, 8)

    alive(memory, use)
    alive(memory, look)


def test_a_runner_that_is_stopped_lets_nobody_wait_and_does_not_come_back() -> None:
    async def use(node: World, runner: Runner) -> None:
        waiting = runner.submit(WaitFor(3))
        runner.stop(Refused(Problem.NOT_COORDINATOR, "moved"))
        assert waiting.result() == runner.submit(Add(1)).result() == Refused(Problem.NOT_COORDINATOR, "moved")
        node.clock.advance(10 * PATIENCE_MS)
        await asyncio.sleep(0)
        assert runner.submit(Sum()).result() == Refused(Problem.NOT_COORDINATOR, "moved")

    alive(PowerCutDisk(), use)


def test_a_machine_goes_with_the_leadership_of_its_log() -> None:
    async def use(node: World, runner: Runner) -> None:
        assert await runner.submit(Add(7)).wait() == 7
        waiting = runner.submit(WaitFor(100))
        partition = node.replicas.find("__counter", 0)
        assert isinstance(partition, Partition)
        node.disk.syncs_may_run.clear()
        uncommitted = runner.submit(Add(1))
        node.replicas.roles.learn(partition, PartitionState(2, 5, (1, 2), (1, 2)), version=5)
        node.disk.syncs_may_run.set()
        for answer in (uncommitted, waiting, runner.submit(Add(1))):
            assert problem_of(answer) is Problem.NOT_COORDINATOR
        node.clock.advance(10 * RELOAD_DELAY_MS)
        await whatever_needs_no_disk()
        assert problem_of(runner.submit(Sum())) is Problem.NOT_COORDINATOR

    alive(PowerCutDisk(), use)


def test_a_certain_answer_waits_for_whoever_could_lead_instead() -> None:
    async def use(node: World, runner: Runner) -> None:
        assert await runner.submit(Add(7), certain=True).wait() == 7
        assert runner.submit(Sum(), certain=True).result() == 7, "nobody else could"
        partition = node.replicas.find("__counter", 0)
        assert isinstance(partition, Partition)
        node.replicas.roles.learn(partition, PartitionState(1, 5, (1, 2), (1, 2)), version=5)
        plain, certain = runner.submit(Sum()), runner.submit(Sum(), certain=True)
        assert plain.result() == 7
        await whatever_needs_no_disk()
        assert not certain.done
        node.replicas.roles.learn(partition, PartitionState(2, 6, (1, 2), (1, 2)), version=6)
        assert problem_of(certain) is Problem.NOT_COORDINATOR

    alive(PowerCutDisk(), use)
