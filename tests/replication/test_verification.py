"""Batches of transactions that wait for their coordinator: in order, and never behind the marker that ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, values_in, world
from tests.storage.transaction_model import data_batch

from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.overtaking import TRANSACTION_PATIENCE_MS
from penstock.replication.partition import Partition
from penstock.replication.transaction_markers import append_marker
from penstock.replication.verification import MOST_BATCHES, MOST_BYTES, Question, Transaction, Verification
from penstock.replication.waiters import HANDING_OVER
from penstock.storage.log import Appended

V1, V2 = Transaction("id", adds=False), Transaction("id", adds=True)
Result = Appended | Refused | Later[Appended | Refused]


class HandCoordinators:
    """Answer when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Question, Later[Refused | None]]] = []

    def ask(self, question: Question) -> Later[Refused | None]:
        answer: Later[Refused | None] = Later()
        self.asked.append((question, answer))
        return answer

    def answer(self, problem: Problem | None = None, at: int = -1) -> None:
        self.asked[at][1].complete(None if problem is None else Refused(problem, "said the coordinator"))


class Leader:
    def __init__(self, node: World, partition: Partition) -> None:
        self.node = node
        self.partition = partition
        self.coordinators = HandCoordinators()
        self.verification = Verification(node.replicas, self.coordinators, node.clock)

    def send(
        self,
        sequence: int,
        *,
        value: bytes | None = None,
        producer_id: int = 1,
        epoch: int = 0,
        transaction: Transaction = V1,
        is_transactional: bool = True,
        partition: Partition | None = None,
    ) -> Result:
        batch = data_batch(
            [(b"k", value or b"%d" % sequence)], producer_id, epoch, sequence, is_transactional=is_transactional
        )
        result = self.verification.append(partition or self.partition, batch, "sender", transaction, for_all=True)
        # As the buffer that requests are received into.
        batch[:] = bytes(len(batch))
        return result

    def end(self, *, epoch: int = 0, version: int = 1) -> None:
        now_ms = self.node.clock.now_ms()
        ended = append_marker(
            self.node.replicas, self.partition, 1, epoch, 0, commit=True, version=version, now_ms=now_ms
        )
        assert isinstance(ended, Appended), ended

    def values(self) -> list[bytes]:
        return values_in(self.partition)

    def lead_anew(self) -> None:
        state = replace(self.partition.state, leader_epoch=self.partition.state.leader_epoch + 1)
        self.node.replicas.roles.learn(self.partition, state, self.partition.version + 1)


def run(use: Callable[[Leader], Awaitable[None]]) -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition = await node.partition(config={"message.timestamp.before.max.ms": str(2**62)})
            await use(Leader(node, partition))

    asyncio.run(life())


def waiting(result: Result) -> Later[Appended | Refused]:
    assert isinstance(result, Later), result
    assert not result.done
    return result


def offset(result: Later[Appended | Refused]) -> int:
    appended = result.result()
    assert isinstance(appended, Appended), appended
    return appended.base_offset


def problem(result: Result) -> Problem:
    refused = result.result() if isinstance(result, Later) else result
    assert isinstance(refused, Refused), refused
    return refused.problem


def test_the_first_batch_waits_and_what_follows_waits_behind_it_in_order() -> None:
    async def use(leader: Leader) -> None:
        held = [waiting(leader.send(sequence)) for sequence in range(4)]
        assert [question for question, _ in leader.coordinators.asked] == [Question("id", 1, 0, "orders", 0, False)]
        assert leader.partition.log.end_offset == 0
        leader.coordinators.answer()
        assert [offset(each) for each in held] == [0, 1, 2, 3]
        assert isinstance(leader.send(4), Appended), "the transaction is open: nobody need be asked"
        assert len(leader.coordinators.asked) == 1
        assert leader.verification.waiting_bytes == 0
        await leader.partition.when_committed(5).wait()
        assert leader.values() == [b"0", b"1", b"2", b"3", b"4"]

    run(use)


def test_everything_else_goes_on() -> None:
    async def use(leader: Leader) -> None:
        waiting(leader.send(0))
        assert isinstance(leader.send(0, producer_id=2, is_transactional=False), Appended)
        assert isinstance(leader.node.write(leader.partition, b"of nobody"), Appended)
        waiting(leader.send(0, producer_id=3))
        other = await leader.node.partition("other", {"message.timestamp.before.max.ms": str(2**62)})
        elsewhere = waiting(leader.send(0, partition=other))
        leader.coordinators.answer()
        assert offset(elsewhere) == 0, "the order of answers is not that of questions"

    run(use)


def test_a_leader_adds_the_partition_for_clients_of_version_2() -> None:
    async def use(leader: Leader) -> None:
        waiting(leader.send(0, transaction=V2))
        ((question, _),) = leader.coordinators.asked
        assert question.adds
        leader.coordinators.answer()
        leader.end(epoch=1, version=2)
        late = waiting(leader.send(1, transaction=V2))
        leader.coordinators.answer()
        assert problem(late) is Problem.INVALID_PRODUCER_EPOCH, "whatever a coordinator says of an epoch that is over"
        begun = waiting(leader.send(0, epoch=1, transaction=V2))
        leader.coordinators.answer()
        assert offset(begun) == 2

    run(use)


def test_every_transaction_is_asked_about() -> None:
    async def use(leader: Leader) -> None:
        waiting(leader.send(0))
        leader.coordinators.answer()
        leader.end()
        late = waiting(leader.send(1))
        leader.coordinators.answer(Problem.TRANSACTION_ABORTABLE)
        assert problem(late) is Problem.TRANSACTION_ABORTABLE
        assert leader.partition.log.end_offset == 2

    run(use)


def test_a_marker_that_comes_meanwhile_makes_the_answer_void() -> None:
    async def use(leader: Leader) -> None:
        late = waiting(leader.send(0))
        leader.end()
        leader.coordinators.answer()
        assert not late.done, "what the coordinator said was of the transaction that has ended"
        leader.coordinators.answer(Problem.TRANSACTION_ABORTABLE)
        assert problem(late) is Problem.TRANSACTION_ABORTABLE
        await leader.partition.when_committed(1).wait()
        assert leader.partition.last_stable_offset == 1, "nothing keeps it back"

    run(use)


def test_a_marker_that_came_again_costs_a_question_and_nothing_else() -> None:
    async def use(leader: Leader) -> None:
        held = waiting(leader.send(0)), waiting(leader.send(1))
        leader.end()
        leader.coordinators.answer()
        leader.coordinators.answer()
        assert [offset(each) for each in held] == [1, 2]
        assert len(leader.coordinators.asked) == 2

    run(use)


def test_markers_that_come_again_and_again_are_not_waited_out() -> None:
    async def use(leader: Leader) -> None:
        held = waiting(leader.send(0))
        while not held.done:
            leader.end()
            leader.coordinators.answer()
        assert problem(held) is Problem.BUSY
        assert len(leader.coordinators.asked) < 10

    run(use)


def test_whoever_has_led_anew_since_then_lets_nothing_in() -> None:
    async def use(leader: Leader) -> None:
        held = waiting(leader.send(0))
        leader.lead_anew()
        await leader.partition.settled.wait()
        leader.coordinators.answer()
        assert problem(held) is Problem.NOT_LEADER
        assert leader.partition.log.end_offset == 0

    run(use)


def test_a_leader_that_gives_way_lets_in_nothing_that_has_waited_and_says_so_when_others_lead() -> None:
    async def use(leader: Leader) -> None:
        held = waiting(leader.send(0))
        hand_over = leader.partition.hand_over
        hand_over.begin()
        assert leader.send(1) is HANDING_OVER
        leader.coordinators.answer()
        assert not held.done, "who is sent away now comes back, because nobody else leads yet"
        hand_over.end()
        assert problem(held) is Problem.NOT_LEADER
        assert leader.partition.log.end_offset == 0
        assert leader.verification.waiting_bytes == 0
        overtaking = waiting(leader.send(1))
        leader.coordinators.answer()
        assert problem(overtaking) is Problem.EARLIER_BATCH_MISSING, "if nobody took over"

    run(use)


def test_refusals_are_in_the_words_of_producers() -> None:
    async def use(leader: Leader) -> None:
        for said, told in {
            Problem.PRODUCER_FENCED: Problem.INVALID_PRODUCER_EPOCH,
            Problem.INVALID_PRODUCER_ID_MAPPING: Problem.INVALID_PRODUCER_ID_MAPPING,
            Problem.NOT_COORDINATOR: Problem.BUSY,
            Problem.CONCURRENT_TRANSACTIONS: Problem.BUSY,
        }.items():
            held = [waiting(leader.send(sequence)) for sequence in range(2)]
            leader.coordinators.answer(said)
            assert [problem(each) for each in held] == [told, told]

    run(use)


def test_no_batch_overtakes_one_that_has_to_come_again() -> None:
    async def use(leader: Leader) -> None:
        waiting(leader.send(0))
        leader.coordinators.answer(Problem.COORDINATOR_NOT_AVAILABLE)
        overtaking = waiting(leader.send(1))
        leader.coordinators.answer()
        assert problem(overtaking) is Problem.EARLIER_BATCH_MISSING
        again = waiting(leader.send(0)), waiting(leader.send(1))
        leader.coordinators.answer()
        assert [offset(each) for each in again] == [0, 1]

    run(use)


def test_of_batches_that_wait_one_that_overtakes_is_to_be_sent_again() -> None:
    async def use(leader: Leader) -> None:
        waiting(leader.send(0))
        leader.coordinators.answer()
        leader.end()
        held = waiting(leader.send(2)), waiting(leader.send(1))
        leader.coordinators.answer()
        assert problem(held[0]) is Problem.EARLIER_BATCH_MISSING
        assert offset(held[1]) == 2
        assert isinstance(leader.send(2), Appended)

    run(use)


def test_a_transaction_of_version_2_begins_with_sequence_0_also_where_its_producer_is_not_known() -> None:
    async def use(leader: Leader) -> None:
        held = waiting(leader.send(1, transaction=V2)), waiting(leader.send(0, transaction=V2))
        leader.coordinators.answer()
        assert problem(held[0]) is Problem.EARLIER_BATCH_MISSING
        assert offset(held[1]) == 0
        assert isinstance(leader.send(1, transaction=V2), Appended)

    run(use)


def test_with_every_transaction_the_time_for_an_earlier_batch_to_come_begins_anew() -> None:
    async def use(leader: Leader) -> None:
        for epoch in range(3):
            overtaking = waiting(leader.send(1, epoch=epoch, transaction=V2))
            leader.coordinators.answer()
            assert problem(overtaking) is Problem.EARLIER_BATCH_MISSING
            waiting(leader.send(0, epoch=epoch, transaction=V2))
            leader.coordinators.answer()
            leader.end(epoch=epoch + 1, version=2)
            leader.node.clock.advance(TRANSACTION_PATIENCE_MS)
        overtaking = waiting(leader.send(1, epoch=3, transaction=V2))
        leader.coordinators.answer()
        leader.node.clock.advance(TRANSACTION_PATIENCE_MS)
        missed = waiting(leader.send(1, epoch=3, transaction=V2))
        leader.coordinators.answer()
        assert [problem(overtaking), problem(missed)] == [Problem.EARLIER_BATCH_MISSING, Problem.OUT_OF_ORDER_SEQUENCE]

    run(use)


def test_a_gap_that_an_abort_has_left_is_told_while_the_next_transaction_has_time_left() -> None:
    """Ten seconds are a usual timeout of transactions; what the client had numbered and not sent never comes."""

    async def use(leader: Leader) -> None:
        waiting(leader.send(0))
        leader.coordinators.answer()
        leader.end()
        told = []
        for _ in range(4):
            beyond_the_gap = waiting(leader.send(2))
            leader.coordinators.answer()
            told.append(problem(beyond_the_gap))
            leader.node.clock.advance(500)
        assert told == [Problem.EARLIER_BATCH_MISSING] * 2 + [Problem.OUT_OF_ORDER_SEQUENCE] * 2

    run(use)


def test_what_waits_is_bounded() -> None:
    async def use(leader: Leader) -> None:
        held = [waiting(leader.send(sequence)) for sequence in range(MOST_BATCHES)]
        assert problem(leader.send(MOST_BATCHES)) is Problem.BUSY
        megabyte = bytes(900_000)
        others = 0
        while isinstance(result := leader.send(0, producer_id=2 + others, value=megabyte), Later):
            others += 1
        assert problem(result) is Problem.BUSY
        assert leader.verification.waiting_bytes <= MOST_BYTES < leader.verification.waiting_bytes + 10**6
        leader.coordinators.answer(at=0)
        assert offset(held[-1]) == MOST_BATCHES - 1
        for place in range(1, len(leader.coordinators.asked)):
            leader.coordinators.answer(Problem.PRODUCER_FENCED, at=place)
        assert leader.verification.waiting_bytes == 0

    run(use)


def test_another_epoch_and_another_transactional_id_do_not_wait_for_each_other() -> None:
    async def use(leader: Leader) -> None:
        zombie = waiting(leader.send(0))
        forged = waiting(leader.send(0, transaction=Transaction("forged", adds=False)))
        successor = waiting(leader.send(0, epoch=1))
        leader.coordinators.answer(at=2)
        assert offset(successor) == 0
        leader.coordinators.answer(Problem.INVALID_PRODUCER_ID_MAPPING, at=1)
        assert problem(forged) is Problem.INVALID_PRODUCER_ID_MAPPING
        leader.coordinators.answer(at=0)
        leader.coordinators.answer()
        assert problem(zombie) is Problem.INVALID_PRODUCER_EPOCH

    run(use)
