"""Producers whose commits, questions and markers overtake each other, under a groups coordinator that restarts.

The transactions' own coordinator is a model that keeps its promises: a transaction that has the partition in it gets a
marker, and the next one of that producer begins after the marker has been written.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.groups.transactions import CONNECTION, numbered, sending

from penstock.errors import Problem
from penstock.groups.core.answers import CommitAnswer, DeleteOffsetsAnswer, FetchAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
    TopicOffsets,
    TopicPartitions,
)
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.groups.core.records import decode
from penstock.groups.core.transaction_events import (
    TransactionEnded,
    TransactionEndedAnswer,
    TransactionGuard,
    TxnOffsetCommit,
)

PARTITIONS = 2


@dataclass
class Producer:
    """As its coordinator knows it."""

    producer_id: int
    bumps_epoch: bool
    epoch: int = 0
    transaction: int = 0
    is_under_way: bool = False
    has_partition: bool = False
    marker: TransactionEnded | None = None


@dataclass
class Request:
    """It may be sent again at any time, long after its transaction."""

    producer: Producer
    transaction: int
    event: TxnOffsetCommit
    guard: TransactionGuard | None = None
    is_verified: bool = False


@dataclass
class Model:
    committed: dict[int, int] = field(default_factory=dict)
    # Producer, partition, offset, in the order in which they were sent.
    pending: list[tuple[int, int, int]] = field(default_factory=list)

    def send(self, producer_id: int, partition: int, offset: int) -> None:
        self.pending = [row for row in self.pending if row[:2] != (producer_id, partition)]
        self.pending.append((producer_id, partition, offset))

    def commit(self, partition: int, offset: int) -> None:
        self.committed[partition] = offset
        self.forget(partition)

    def forget(self, partition: int) -> None:
        self.pending = [row for row in self.pending if row[1] != partition]

    def end(self, producer_id: int, committed: bool) -> None:
        for row in [row for row in self.pending if row[0] == producer_id]:
            place = self.pending.index(row)
            if committed:
                self.committed[row[1]] = row[2]
                older = [one for one in self.pending[:place] if one[1] == row[1]]
                self.pending = [one for one in self.pending if one not in older]
            self.pending.remove(row)


# One of version 1 and one of version 2, which get into each other's way.
numbers = st.integers(0, 1)
places = st.integers(0, PARTITIONS - 1)
endings = st.sampled_from(["commit", "commit", "abort", "fence"])
# Of the latest: what is older was tried before.
picks = st.integers(-3, -1)


class TransactionOffsetsSimulation(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.runner = numbered()
        self.producers = [Producer(n, bumps_epoch=n > 0) for n in range(2)]
        self.requests: list[Request] = []
        self.written: list[tuple[Producer, int, TransactionEnded]] = []
        self.model = Model()
        self.offsets = itertools.count(1)

    # The transactions

    def _begin(self, producer: Producer) -> None:
        if not producer.is_under_way and producer.marker is None:
            producer.is_under_way, producer.has_partition = True, False
            producer.transaction += 1

    @precondition(lambda self: any(producer.is_under_way for producer in self.producers))
    @rule(number=numbers, how=endings, at_once=st.booleans())
    def end(self, number: int, how: str, at_once: bool) -> None:
        producer = self.producers[number]
        self._prepare(producer, how == "commit", how == "fence")
        if at_once:
            self._write_marker(producer)

    def _prepare(self, producer: Producer, committed: bool, is_fenced: bool) -> None:
        """The decision; the marker is on its way. A fenced producer's transaction is aborted in an epoch of its own."""
        if not producer.is_under_way:
            return
        bumps = producer.bumps_epoch or is_fenced
        marker = TransactionEnded(
            producer.producer_id, producer.epoch + bumps, 1, committed and not is_fenced, producer.bumps_epoch
        )
        producer.epoch += bumps + is_fenced
        producer.is_under_way = False
        producer.marker = marker if producer.has_partition else None

    @precondition(lambda self: any(producer.marker for producer in self.producers))
    @rule(number=numbers)
    def write_marker(self, number: int) -> None:
        self._write_marker(self.producers[number])

    def _write_marker(self, producer: Producer) -> None:
        if producer.marker is None:
            return
        assert self.runner.ask(producer.marker, TransactionEndedAnswer).problem is None
        self.model.end(producer.producer_id, producer.marker.committed)
        self.written.append((producer, producer.transaction, producer.marker))
        producer.marker = None

    @precondition(lambda self: self.written)
    @rule(pick=picks)
    def write_marker_again(self, pick: int) -> None:
        """Before version 2 nothing tells it from the marker of the next transaction, once there is one."""
        producer, transaction, marker = self.written[max(pick, -len(self.written))]
        if producer.bumps_epoch or (producer.transaction == transaction and not producer.is_under_way):
            answer = self.runner.ask(marker, TransactionEndedAnswer)
            assert answer.problem in (None, Problem.INVALID_PRODUCER_EPOCH)

    # Their commits

    @rule(number=numbers, partition=places)
    def send(self, number: int, partition: int) -> None:
        self._send(self.producers[number], partition, steps=3)

    @rule(number=numbers, partition=places, steps=st.sampled_from([0, 2, 2]))
    def send_slowly(self, number: int, partition: int, steps: int) -> None:
        """It comes so far; the rest of the way may take it any time."""
        self._send(self.producers[number], partition, steps)

    @rule(number=numbers, partition=places, how=endings, restarts=st.booleans())
    def send_too_late(self, number: int, partition: int, how: str, restarts: bool) -> None:
        """Verified, and then overtaken by the marker; chance alone makes that too rarely."""
        producer = self.producers[number]
        self._send(producer, partition, steps=2)
        self.end(number, how, at_once=True)
        if restarts:
            self.runner.restart()
        if self.requests:
            self._take(self.requests[-1])

    def _send(self, producer: Producer, partition: int, steps: int) -> None:
        self._begin(producer)
        if producer.is_under_way:
            producer.has_partition = producer.has_partition or not producer.bumps_epoch
            event = sending(
                next(self.offsets), producer_id=producer.producer_id, epoch=producer.epoch, partition=partition
            )
            request = Request(producer, producer.transaction, event)
            self.requests.append(request)
            for step in (self._ask, self._verify, self._take)[:steps]:
                step(request)

    @precondition(lambda self: self.requests)
    @rule(pick=picks)
    def arrive(self, pick: int) -> None:
        """Again, or at last."""
        self._ask(self.requests[max(pick, -len(self.requests))])

    @precondition(lambda self: any(request.guard for request in self.requests))
    @rule(pick=picks)
    def go_on(self, pick: int) -> None:
        """The answer of the transaction's coordinator, or what follows it."""
        asked = [request for request in self.requests if request.guard is not None]
        request = asked[max(pick, -len(asked))]
        if request.is_verified:
            self._submit(request)
        else:
            self._verify(request)

    def _ask(self, request: Request) -> None:
        """The group's coordinator asks the transaction's, if it has to."""
        event = request.event
        request.guard = self.runner.machine.transaction_guard(event.producer_id, event.producer_epoch)
        request.is_verified = False
        if request.guard is None:
            self._submit(request)

    def _verify(self, request: Request) -> None:
        producer = request.producer
        if request.guard is not None and producer.is_under_way and producer.epoch == request.event.producer_epoch:
            producer.has_partition = producer.has_partition or producer.bumps_epoch
            request.is_verified = producer.has_partition

    def _take(self, request: Request) -> None:
        if request.is_verified:
            self._submit(request)

    def _submit(self, request: Request) -> None:
        answer = self.runner.ask(replace(request.event, guard=request.guard), CommitAnswer)
        request.guard, request.is_verified = None, False
        producer = request.producer
        if answer.problem is None:
            if producer.bumps_epoch:
                assert request.transaction == producer.transaction, "a late one entered another transaction"
            (row,) = request.event.topics[0].offsets
            self.model.send(producer.producer_id, row.partition, row.offset)
        else:
            assert answer.problem in (Problem.COORDINATOR_LOADING, Problem.INVALID_PRODUCER_EPOCH)

    # What else happens to the group

    @rule(what=st.sampled_from(["commit", "commit", "restart", "restart", "compact", "delete"]), partition=places)
    def meanwhile(self, what: str, partition: int) -> None:
        if what == "commit":
            self._commit_outside(partition)
        elif what == "delete":
            self._delete_offset(partition)
        else:
            self._compare_with_replay()
            self.runner.restart(compacted=what == "compact")

    def _commit_outside(self, partition: int) -> None:
        offset = next(self.offsets)
        rows = (TopicOffsets("orders", (OffsetToCommit(partition, offset),)),)
        assert self.runner.ask(CommitOffsets("group", rows, connection=CONNECTION), CommitAnswer).problem is None
        self.model.commit(partition, offset)

    def _delete_offset(self, partition: int) -> None:
        event = DeleteOffsets("group", (TopicPartitions("orders", (partition,)),))
        if self.runner.ask(event, DeleteOffsetsAnswer).problem is None:
            self.model.committed.pop(partition, None)
            self.model.forget(partition)

    # What holds

    @invariant()
    def only_what_is_committed_is_shown(self) -> None:
        answer = self.runner.ask(FetchOffsets("group", None), FetchAnswer)
        shown = {row.partition: row.offset for topic in answer.topics for row in topic.partitions}
        assert shown == self.model.committed
        wanted = (TopicPartitions("orders", tuple(range(PARTITIONS))),)
        stable = self.runner.ask(FetchOffsets("group", wanted, require_stable=True), FetchAnswer)
        unstable = {one[1] for one in self.model.pending}
        assert [(row.problem, row.offset) for row in stable.topics[0].partitions] == [
            (Problem.UNSTABLE_OFFSET_COMMIT, -1) if partition in unstable else (None, shown.get(partition, -1))
            for partition in range(PARTITIONS)
        ]

    @invariant()
    def somebody_will_end_what_is_pending(self) -> None:
        for producer_id, _, _ in self.model.pending:
            producer = self.producers[producer_id]
            assert producer.marker is not None or (producer.is_under_way and producer.has_partition)

    def _compare_with_replay(self) -> None:
        twin = GroupsMachine(GroupLimits(), ConsumerLimits())
        for key, value in self.runner.log:
            twin.apply(decode(key, value))
        for machine in (self.runner.machine, twin):
            pending = machine.state.offsets.pending
            found = {
                (producer.producer_id, place.partition, offset.offset)
                for producer in self.producers
                for place, offset in pending.of(producer.producer_id).items()
            }
            assert found == set(self.model.pending)
            for partition in range(PARTITIONS):
                senders = [row[0] for row in self.model.pending if row[1] == partition]
                assert list(pending.senders("group", "orders", partition)) == senders
            assert all(pending.weight_of(row[0]) > 0 for row in self.model.pending)

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        self._compare_with_replay()
        for producer in self.producers:
            self._prepare(producer, committed=False, is_fenced=False)
            self._write_marker(producer)
        pending = self.runner.machine.state.offsets.pending
        assert list(pending) == []
        assert all(pending.weight_of(producer.producer_id) == 0 for producer in self.producers)


TestTransactionOffsetsSimulation = TransactionOffsetsSimulation.TestCase
TestTransactionOffsetsSimulation.settings = settings(max_examples=80, stateful_step_count=50)
