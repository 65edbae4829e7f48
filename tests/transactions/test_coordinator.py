"""The coordinator's shell: machines that come and go, and markers that arrive whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import pytest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32
from msgspec.structs import replace
from tests.cluster.running import Cluster, cluster
from tests.disk.power import PowerCutDisk
from tests.transactions.leaders import Leaders, ProducerIds

from penstock.broker.api import Caller
from penstock.broker.apis.add_partitions_to_txn import AddPartitionsToTxn
from penstock.cluster.partition_counts import PartitionCounts
from penstock.coordination.interface import Create
from penstock.coordination.paths import PARTITION, TOPIC, PartitionState, TopicState, partition_path, topic_path
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.machine import RELOAD_DELAY_MS
from penstock.replication.machines import Ground
from penstock.transactions.coordinator import TRANSACTIONS_TOPIC, Transactions
from penstock.transactions.core.answers import AddAnswer, DescribeAnswer, ListAnswer, ProducerAnswer
from penstock.transactions.core.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
)
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.transactions.core.transaction import Producer, TopicPartitions
from penstock.transactions.finishing import LONGEST_MS
from penstock.transactions.markers import ASKED_AFTER_MS, LAST_PAUSE_MS, Markers
from penstock.wire.lifts.add_partitions_to_txn import AddPartitionsToTxnRequest


@dataclass
class Serving:
    running: Cluster
    transactions: Transactions
    leaders: Leaders
    producer_ids: ProducerIds

    async def initialise(self, name: str = "id") -> Producer:
        answer = await self.transactions.renew(InitProducerId(name, 60_000)).wait()
        assert isinstance(answer, ProducerAnswer) and answer.problem is None, answer
        return answer.producer

    async def begin(self, *partitions: int, name: str = "id", topic: str = "orders") -> Producer:
        producer = await self.initialise(name)
        event = AddPartitions(name, producer, (TopicPartitions(topic, partitions),))
        answer = await self.transactions.submit(event, AddAnswer).wait()
        assert isinstance(answer, AddAnswer) and answer.problem is None, answer
        return producer

    async def end(self, producer: Producer, *, name: str = "id", version: int = 2) -> Producer:
        answer = await self.transactions.renew(EndTransaction(name, producer, True, version)).wait()
        assert isinstance(answer, ProducerAnswer) and answer.problem is None, answer
        return answer.producer

    async def end_without_markers(self, *, version: int) -> Producer:
        """The client has its answer, and no leader has."""
        self.leaders.answer_at_once = False
        producer = await self.end(await self.begin(0), version=version)
        while not self.leaders.asked:
            await asyncio.sleep(0.001)
        return producer

    def add(self, producer: Producer) -> Later[AddAnswer | Refused]:
        return self.transactions.add(AddPartitions("id", producer, (TopicPartitions("orders", (1,)),), connection=9))

    def add_for_leader(self, producer: Producer) -> list[ErrorCode]:
        """At the edge, as another broker asks; what it is answered at once."""
        row = AddPartitionsToTxnTransaction(
            transactional_id=TransactionalId("id"),
            producer_id=ProducerId(producer.id),
            producer_epoch=i16(producer.epoch),
            verify_only=False,
            topics=(AddPartitionsToTxnTopic(name=TopicName("orders"), partitions=(i32(1),)),),
        )
        edge = AddPartitionsToTxn(self.transactions, self.running.image)
        answer = edge.start(AddPartitionsToTxnRequest(transactions=(row,)), Caller("peer", "here", 9092))
        (result,) = answer.result().results_by_transaction
        return [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]

    async def state(self, name: str = "id") -> str:
        answer = await self.transactions.submit(DescribeTransaction(name), DescribeAnswer).wait()
        return answer.state if isinstance(answer, DescribeAnswer) else answer.problem.name

    async def until_complete(self, name: str = "id") -> None:
        while await self.state(name) != "CompleteCommit":
            await asyncio.sleep(0.001)

    def lead_anew(self) -> None:
        """Another epoch, as after an election: the next machine replays."""
        partition = self.running.partition(TRANSACTIONS_TOPIC)
        state = replace(partition.state, leader_epoch=partition.state.leader_epoch + 1)
        self.running.node.replicas.roles.learn(partition, state, partition.version + 1)


@asynccontextmanager
async def serving(memory: PowerCutDisk) -> AsyncIterator[Serving]:
    async with cluster(memory) as running:
        node, leaders, ids = running.node, Leaders(), ProducerIds()
        markers = Markers(running.image, PartitionCounts(running.store, running.metadata), leaders, node.clock)
        ground = Ground(node.replicas, running.topics, running.image, node.pool, node.clock)
        transactions = Transactions(lambda: TransactionsMachine(TransactionLimits()), ids, markers, ground)
        try:
            await running.made("orders", 4)
            assert await transactions.ensure_topic(1) is None
            yield Serving(running, transactions, leaders, ids)
        finally:
            await transactions.close()


def served(use: Callable[[Serving], Awaitable[None]]) -> None:
    async def life() -> None:
        async with serving(PowerCutDisk()) as serving_now:
            await use(serving_now)

    asyncio.run(life())


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    async def use(serving: Serving) -> None:
        producer = await serving.begin(0, 2)
        after = await serving.end(producer)
        assert after == Producer(producer.id, producer.epoch + 1)
        await serving.until_complete()
        (asked,) = serving.leaders.asked
        (marker,) = asked.markers
        assert asked.node_id == 1
        assert marker.topics == (TopicPartitions("orders", (0, 2)),)
        assert (marker.producer_id, marker.producer_epoch) == (after.id, after.epoch)
        assert (marker.commit, marker.transaction_version) == (True, 2)
        assert marker.coordinator_epoch == serving.running.partition(TRANSACTIONS_TOPIC).leader_epoch
        (listed,) = await serving.transactions.listed(ListTransactions()).wait()
        assert isinstance(listed, ListAnswer)
        assert [row.state for row in listed.transactions] == ["CompleteCommit"]

    served(use)


def test_what_a_leader_refuses_is_asked_again_and_nothing_else() -> None:
    async def use(serving: Serving) -> None:
        serving.leaders.problems["orders", 1] = Problem.NOT_LEADER
        producer = await serving.begin(0, 1)
        await serving.end(producer)
        while len(serving.leaders.asked) < 3:
            await asyncio.sleep(0.001)
        assert await serving.state() == "PrepareCommit"
        serving.leaders.problems.clear()
        await serving.until_complete()
        assert [asked.places() for asked in serving.leaders.asked[:2]] == [
            [("orders", 0), ("orders", 1)],
            [("orders", 1)],
        ]

    served(use)


def test_a_request_of_which_nobody_knows_what_became_is_made_again() -> None:
    async def use(serving: Serving) -> None:
        serving.leaders.answer_at_once = False
        await serving.end(await serving.begin(0))
        while not serving.leaders.asked:
            await asyncio.sleep(0.001)
        serving.leaders.answer_at_once = True
        serving.leaders.asked[0].answer.complete(Refused(Problem.REQUEST_TIMED_OUT, "silence"))
        await serving.until_complete()
        assert len(serving.leaders.asked) == 2

    served(use)


def test_a_partition_is_gone_when_the_store_says_so() -> None:
    async def use(serving: Serving) -> None:
        await serving.end(await serving.begin(0, topic="deleted"))
        await serving.end(await serving.begin(9, name="beyond"), name="beyond")
        await serving.end(await serving.begin(0, name="none", topic="../no topic"), name="none")
        serving.running.node.clock.advance(ASKED_AFTER_MS // 2)
        assert await serving.state() == "PrepareCommit"
        serving.running.node.clock.advance(ASKED_AFTER_MS)
        for name in ("id", "beyond", "none"):
            await serving.until_complete(name)
        assert not serving.leaders.asked

    served(use)


def test_what_the_metadata_do_not_have_yet_gets_its_marker_however_long_that_takes() -> None:
    """A leader may know a topic long before this broker does: when that is cut off from the controller, or opens many.

    What it took for gone would stay open for ever in that leader's log.
    """

    async def use(serving: Serving) -> None:
        running = serving.running
        state = TopicState(UUID(int=5), 1, generation=50)
        partition = PartitionState(leader=1, leader_epoch=0, isr=(1,), replicas=(1,))
        await running.store.commit(
            [
                Create(topic_path("new"), TOPIC.encode(state)),
                Create(partition_path("new", 0), PARTITION.encode(partition)),
            ]
        )
        await serving.end(await serving.begin(0, topic="new"))
        for _ in range(3):
            reads = running.store.hold("read", topic_path("new"))
            running.node.clock.advance(ASKED_AFTER_MS + LAST_PAUSE_MS)
            await reads.reached.wait()
            reads.answered.set()
            assert await serving.state() == "PrepareCommit"
        running.store.fail("read", topic_path("new"))
        running.node.clock.advance(ASKED_AFTER_MS + LAST_PAUSE_MS)
        for _ in range(100):
            await asyncio.sleep(0)
        assert await serving.state() == "PrepareCommit", "what cannot be asked says nothing"
        assert not await running.metadata.load().wait()
        while await serving.state() != "CompleteCommit":
            running.node.clock.advance(LAST_PAUSE_MS)
            await asyncio.sleep(0.001)
        assert [asked.places() for asked in serving.leaders.asked] == [[("new", 0)]]

    served(use)


def test_the_next_coordinator_finishes_what_was_decided_and_the_one_before_nothing() -> None:
    async def use(serving: Serving) -> None:
        serving.leaders.answer_at_once = False
        await serving.end(await serving.begin(0), version=1)
        while not serving.leaders.asked:
            await asyncio.sleep(0.001)
        serving.lead_anew()
        while await serving.state() != "PrepareCommit":
            await asyncio.sleep(0.001)
        serving.leaders.answer(serving.leaders.asked[0])
        while len(serving.leaders.asked) < 2:
            await asyncio.sleep(0.001)
        assert await serving.state() == "PrepareCommit", "what was answered was the other one's question"
        before, now = serving.leaders.asked
        assert now.markers[0].coordinator_epoch == before.markers[0].coordinator_epoch + 1
        serving.leaders.answer(now)
        await serving.until_complete()
        assert len(serving.leaders.asked) == 2

    served(use)


def test_all_that_is_ordered_while_a_broker_is_asked_goes_together() -> None:
    async def use(serving: Serving) -> None:
        serving.leaders.answer_at_once = False
        names = ["a", "b", "c"]
        producers = {name: await serving.begin(place, name=name) for place, name in enumerate(names)}
        await serving.end(producers["a"], name="a")
        while not serving.leaders.asked:
            await asyncio.sleep(0.001)
        for name in ("b", "c"):
            await serving.end(producers[name], name=name)
        assert len(serving.leaders.asked) == 1
        serving.leaders.answer_at_once = True
        serving.leaders.answer(serving.leaders.asked[0])
        for name in names:
            await serving.until_complete(name)
        assert [len(asked.markers) for asked in serving.leaders.asked] == [1, 2]

    served(use)


def test_a_full_disk_delays_the_end_and_does_not_prevent_it() -> None:
    async def use(serving: Serving) -> None:
        serving.leaders.answer_at_once = False
        await serving.end(await serving.begin(0))
        while not serving.leaders.asked:
            await asyncio.sleep(0.001)
        serving.running.node.disk.fill()
        serving.leaders.answer_at_once = True
        serving.leaders.answer(serving.leaders.asked[0])
        assert await serving.state() == Problem.COORDINATOR_NOT_AVAILABLE.name
        serving.running.node.disk.make_room()
        while await serving.state() != "CompleteCommit":
            serving.running.node.clock.advance(RELOAD_DELAY_MS)
            await asyncio.sleep(0.001)

    served(use)


def test_no_marker_leaves_for_a_decision_that_a_power_cut_could_take_back() -> None:
    """Else the transaction could end there as it was decided, and elsewhere as whoever leads next decides."""

    async def use(serving: Serving) -> None:
        node = serving.running.node
        first, second = await serving.begin(0), await serving.begin(1, name="other")
        node.disk.syncs_may_run.clear()
        ended = serving.transactions.renew(EndTransaction("id", first, True, 2))
        node.disk.fill()
        refused = await serving.transactions.renew(EndTransaction("other", second, True, 2)).wait()
        assert refused.problem is Problem.COORDINATOR_NOT_AVAILABLE, "a new machine has to replay"
        node.disk.make_room()
        for _ in range(50):
            node.clock.advance(RELOAD_DELAY_MS)
            await asyncio.sleep(0.001)
        assert not ended.done
        assert not serving.leaders.asked
        node.disk.syncs_may_run.set()
        while await serving.state() != "CompleteCommit":
            node.clock.advance(RELOAD_DELAY_MS)
            await asyncio.sleep(0.001)

    served(use)


def test_without_producer_ids_clients_are_asked_to_come_again() -> None:
    async def use(serving: Serving) -> None:
        serving.producer_ids.refused = Refused(Problem.STORE_UNAVAILABLE, "no store")
        answer = await serving.transactions.renew(InitProducerId("id", 60_000)).wait()
        assert isinstance(answer, Refused) and answer.problem is Problem.COORDINATOR_LOADING
        serving.producer_ids.refused = None
        await serving.initialise()

    served(use)


def test_ids_are_served_where_their_partition_is_led() -> None:
    async def use(serving: Serving) -> None:
        await serving.initialise()
        assert serving.transactions.partition_of("id") == 0
        deleted = await serving.running.topics.delete(TRANSACTIONS_TOPIC)
        assert isinstance(deleted, Refused) and deleted.problem is Problem.INVALID_REQUEST
        partition = serving.running.partition(TRANSACTIONS_TOPIC)
        elsewhere = replace(partition.state, leader=2, leader_epoch=partition.state.leader_epoch + 1)
        serving.running.node.replicas.roles.learn(partition, elsewhere, partition.version + 1)
        assert await serving.state() == Problem.NOT_COORDINATOR.name
        assert not serving.transactions.unavailable()

    served(use)


@pytest.mark.parametrize("version", [1, 2])
def test_the_next_transaction_begins_with_the_write_that_the_last_one_ends_with(version: int) -> None:
    async def use(serving: Serving) -> None:
        producer = await serving.end_without_markers(version=version)
        added = [serving.add(producer), serving.add(producer)]
        log = serving.running.partition(TRANSACTIONS_TOPIC).log
        end_offset = log.end_offset
        assert not any(each.done for each in added)
        serving.leaders.answer(serving.leaders.asked[0])
        assert log.end_offset == end_offset + 2, "complete, and ongoing, in one turn of the loop"
        assert [await each.wait() for each in added] == [AddAnswer(None), AddAnswer(None)]
        assert await serving.state() == "Ongoing"

    served(use)


def test_whoever_waits_too_long_for_the_last_transaction_is_told_so_and_begins_nothing() -> None:
    async def use(serving: Serving) -> None:
        producer = await serving.end_without_markers(version=1)
        added = serving.add(producer)
        serving.running.node.clock.advance(LONGEST_MS)
        assert await added.wait() == AddAnswer(Problem.CONCURRENT_TRANSACTIONS)
        serving.leaders.answer(serving.leaders.asked[0])
        await serving.until_complete()

    served(use)


def test_whoever_waits_for_a_coordinator_that_is_replaced_is_answered() -> None:
    async def use(serving: Serving) -> None:
        producer = await serving.end_without_markers(version=2)
        added = serving.add(producer)
        serving.leaders.answer_at_once = True
        serving.lead_anew()
        serving.leaders.answer(serving.leaders.asked[0])
        assert not added.done, "what was answered was the other one's question"
        while await added.wait() != AddAnswer(None):
            # The next one took longer to read its log than anybody waits.
            added = serving.add(producer)
        assert await serving.state() == "Ongoing"

    served(use)


def test_nobody_waits_who_is_fenced_or_asks_for_others_too() -> None:
    async def use(serving: Serving) -> None:
        producer = await serving.end_without_markers(version=2)
        fenced = serving.add(Producer(producer.id, producer.epoch - 1))
        assert fenced.done and fenced.result() == AddAnswer(Problem.PRODUCER_FENCED)
        assert serving.add_for_leader(producer) == [ErrorCode.concurrent_transactions]

    served(use)
