"""What leaders ask coordinators: together what is asked together, again what is soon over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.cluster.running import cluster
from tests.disk.power import PowerCutDisk
from tests.transactions.leaders import Leaders, ProducerIds

from penstock.cluster.partition_counts import PartitionCounts
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.machines import Ground
from penstock.replication.verification import Question
from penstock.rpc.core.unanswered import Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.transactions.coordinator import Transactions
from penstock.transactions.core.answers import AddAnswer, DescribeAnswer, ProducerAnswer
from penstock.transactions.core.events import AddPartitions, DescribeTransaction, EndTransaction, InitProducerId
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.transactions.core.transaction import Producer, TopicPartitions
from penstock.transactions.markers import Markers
from penstock.transactions.questions import Questions


class Coordinator:
    def __init__(self, transactions: Transactions, questions: Questions, leaders: Leaders) -> None:
        self.transactions = transactions
        self.questions = questions
        self.leaders = leaders

    async def initialised(self, name: str = "id") -> Producer:
        answer = await self.transactions.renew(InitProducerId(name, 60_000)).wait()
        assert isinstance(answer, ProducerAnswer) and answer.problem is None, answer
        return answer.producer

    def ask(self, producer: Producer, partition: int, *, adds: bool, name: str = "id") -> Later[Refused | None]:
        return self.questions.ask(Question(name, producer.id, producer.epoch, "orders", partition, adds))

    async def partitions(self, name: str = "id") -> tuple[TopicPartitions, ...]:
        answer = await self.transactions.submit(DescribeTransaction(name), DescribeAnswer).wait()
        assert isinstance(answer, DescribeAnswer)
        return answer.topics


def run(use: Callable[[Coordinator], Awaitable[None]]) -> None:
    async def life() -> None:
        async with cluster(PowerCutDisk()) as running:
            node, leaders = running.node, Leaders()
            ground = Ground(node.replicas, running.topics, running.image, node.pool, node.clock)
            markers = Markers(running.image, PartitionCounts(running.store, running.metadata), leaders, node.clock)
            transactions = Transactions(
                lambda: TransactionsMachine(TransactionLimits()), ProducerIds(), markers, ground
            )
            peers = Peers(node.clock, _lost)
            questions = Questions(running.image, transactions, peers, lambda group_id: 3, node.clock)
            try:
                await running.made("orders", 4)
                early = await questions.ask(Question("id", 1, 0, "orders", 0, True)).wait()
                assert early is not None and early.problem is Problem.COORDINATOR_NOT_AVAILABLE
                assert await transactions.ensure_topic(1) is None
                await use(Coordinator(transactions, questions, leaders))
            finally:
                peers.close()
                await transactions.close()

    asyncio.run(life())


def _lost(node_id: int, purpose: Purpose, why: Unanswered) -> None:
    """There is nobody else."""


def test_partitions_are_verified() -> None:
    async def use(coordinator: Coordinator) -> None:
        producer = await coordinator.initialised()
        added = AddPartitions("id", producer, (TopicPartitions("orders", (1, 2)),), connection=1)
        assert await coordinator.transactions.submit(added, AddAnswer).wait() == AddAnswer(None)
        asked = [coordinator.ask(producer, partition, adds=False) for partition in (1, 3, 2)]
        problems = [None if (answer := await each.wait()) is None else answer.problem for each in asked]
        assert problems == [None, Problem.TRANSACTION_ABORTABLE, None]
        stranger = await coordinator.ask(Producer(producer.id, 7), 1, adds=False).wait()
        assert stranger is not None and stranger.problem is Problem.PRODUCER_FENCED
        assert await coordinator.partitions() == (TopicPartitions("orders", (1, 2)),)

    run(use)


def test_partitions_are_added_and_so_is_that_of_a_group() -> None:
    async def use(coordinator: Coordinator) -> None:
        producer = await coordinator.initialised()
        asked = [coordinator.ask(producer, partition, adds=True) for partition in (2, 0)]
        offsets = coordinator.questions.of_offsets("id", producer.id, producer.epoch, "group", adds=True)
        assert [await each.wait() for each in (*asked, offsets)] == [None, None, None]
        assert await coordinator.partitions() == (
            TopicPartitions("__consumer_offsets", (3,)),
            TopicPartitions("orders", (0, 2)),
        )

    run(use)


def test_the_next_transaction_begins_when_the_one_before_is_finished() -> None:
    async def use(coordinator: Coordinator) -> None:
        producer = await coordinator.initialised()
        assert await coordinator.ask(producer, 0, adds=True).wait() is None
        coordinator.leaders.answer_at_once = False
        ended = await coordinator.transactions.renew(EndTransaction("id", producer, True, 2)).wait()
        assert isinstance(ended, ProducerAnswer)
        asked = coordinator.ask(ended.producer, 1, adds=True)
        while not coordinator.leaders.asked:
            await asyncio.sleep(0)
        assert not asked.done
        coordinator.leaders.answer(coordinator.leaders.asked[0])
        assert await asked.wait() is None

    run(use)


def test_who_has_to_wait_for_too_long_is_told_so() -> None:
    async def use(coordinator: Coordinator) -> None:
        producer = await coordinator.initialised()
        assert await coordinator.ask(producer, 0, adds=True).wait() is None
        coordinator.leaders.answer_at_once = False
        ended = await coordinator.transactions.renew(EndTransaction("id", producer, True, 2)).wait()
        assert isinstance(ended, ProducerAnswer)
        refused = await coordinator.ask(ended.producer, 1, adds=True).wait()
        assert refused is not None and refused.problem is Problem.CONCURRENT_TRANSACTIONS

    run(use)
