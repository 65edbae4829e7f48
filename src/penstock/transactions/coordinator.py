"""All transactions of this broker: one machine per partition of __transaction_state, found by the transactional id.

Those of a query are found by the query, so that one machine can decide about all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec.structs import replace

from penstock.cluster.core.image import TopicImage
from penstock.errors import Problem, Refused
from penstock.later import Later, awaiting
from penstock.replication.machine import MachineRunner
from penstock.replication.machines import Ground, MachineKind, Machines
from penstock.transactions.core import records
from penstock.transactions.core.answers import AddAnswer, ListAnswer, ProducerAnswer
from penstock.transactions.core.events import (
    AbortTransaction,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    VerifyPartitions,
)
from penstock.transactions.core.machine import TransactionEvent, TransactionsMachine
from penstock.transactions.core.orders import WriteMarkers
from penstock.transactions.core.query_answers import AttemptAnswer, BatchAnswer
from penstock.transactions.core.query_events import AbortBatch, CommitBatch, OpenAttempt
from penstock.transactions.core.records import StateRecord
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import Producer
from penstock.transactions.core.volatile import Note
from penstock.transactions.finishing import Finishing
from penstock.transactions.markers import Markers
from penstock.wire.query_ids import attempt_id, coordinated_name

TRANSACTIONS_TOPIC = "__transaction_state"

Runner = MachineRunner[TransactionEvent, StateRecord, MachineAnswer, Note]
A = TypeVar("A", bound=MachineAnswer)


class FreshIds(Protocol):
    async def allocate(self) -> int | Refused:
        """A producer id that nobody else has or ever gets."""


class Transactions:
    """Follows the topics, of which only its own matters to it. Every answer is certain: a coordinator that was replaced

    and does not know it tells no leader that it may write, and no client that its transaction has ended.
    """

    def __init__(
        self, make_machine: Callable[[], TransactionsMachine], producer_ids: FreshIds, markers: Markers, ground: Ground
    ) -> None:
        self._producer_ids = producer_ids
        self._markers = markers
        self._finishing = Finishing(ground.clock)
        markers.when_finished = self._finishing.finished
        self._machines: Machines[TransactionEvent, StateRecord, MachineAnswer, Note] = Machines(
            MachineKind(TRANSACTIONS_TOPIC, make_machine, records, self._take_up, self._carry_out), ground
        )

    def partition_of(self, transactional_id: str) -> int | None:
        """Of the transactions topic: its leader is the id's coordinator. None before there is such a topic."""
        return self._machines.partition_of(coordinated_name(transactional_id))

    async def ensure_topic(self, partition_count: int) -> Refused | None:
        """The topic comes with the first transactional id."""
        return await self._machines.ensure_topic(partition_count)

    def submit(
        self, event: AddPartitions | VerifyPartitions | AbortTransaction | DescribeTransaction, kind: type[A]
    ) -> Later[A | Refused]:
        """`kind` is the answer that the event is answered with."""
        return self._machines.submit(coordinated_name(event.transactional_id), event, kind, certain=True)

    def add(self, event: AddPartitions) -> Later[AddAnswer | Refused]:
        """As `submit`, but while the markers of the id's last transaction are being written it waits for them.

        Not for whoever asks for several ids at once: one whose markers take long would hold up all of them.
        """
        if not self._is_being_finished(event.transactional_id, event.producer):
            return self.submit(event, AddAnswer)
        return self._finishing.wait(event.transactional_id).then(lambda _: self.submit(event, AddAnswer))

    def _is_being_finished(self, transactional_id: str, producer: Producer) -> bool:
        """As the machine has it, committed or not: it says only when to ask."""
        machine = self._machines.machine_at(self.partition_of(transactional_id))
        found = machine.state.find(transactional_id) if isinstance(machine, TransactionsMachine) else None
        return found is not None and found.is_prepared and found.producer == producer

    def renew(self, event: InitProducerId | EndTransaction) -> Later[ProducerAnswer | Refused]:
        """What may make another producer of a client; it gets a fresh id if it needs one."""

        def or_fresh(answer: ProducerAnswer | Refused) -> Later[ProducerAnswer | Refused]:
            is_needed = isinstance(answer, ProducerAnswer) and answer.needs_producer_id
            return awaiting(self._renewed(event)) if is_needed else Later.of(answer)

        name = coordinated_name(event.transactional_id)
        return self._machines.submit(name, event, ProducerAnswer, certain=True).then(or_fresh)

    async def _renewed(self, event: InitProducerId | EndTransaction) -> ProducerAnswer | Refused:
        match await self._fresh_id():
            case Refused() as refused:
                return refused
            case fresh_id:
                again = replace(event, fresh_producer_id=fresh_id)
                name = coordinated_name(event.transactional_id)
                return await self._machines.submit(name, again, ProducerAnswer, certain=True).wait()

    async def _fresh_id(self) -> int | Refused:
        fresh_id = await self._producer_ids.allocate()
        # Kafka's answer when it has no ids left: clients take it as a reason to ask again.
        return Refused(Problem.COORDINATOR_LOADING, fresh_id.text) if isinstance(fresh_id, Refused) else fresh_id

    # Of queries

    def open_attempt(self, event: OpenAttempt) -> Later[AttemptAnswer | Refused]:
        def or_fresh(answer: AttemptAnswer | Refused) -> Later[AttemptAnswer | Refused]:
            is_needed = isinstance(answer, AttemptAnswer) and answer.needs_producer_id
            return awaiting(self._opened(event)) if is_needed else Later.of(answer)

        return self._machines.submit(_name_of(event.query), event, AttemptAnswer, certain=True).then(or_fresh)

    async def _opened(self, event: OpenAttempt) -> AttemptAnswer | Refused:
        match await self._fresh_id():
            case Refused() as refused:
                return refused
            case fresh_id:
                again = replace(event, fresh_producer_id=fresh_id)
                return await self._machines.submit(_name_of(event.query), again, AttemptAnswer, certain=True).wait()

    def end_batch(self, event: CommitBatch | AbortBatch) -> Later[BatchAnswer | Refused]:
        return self._machines.submit(_name_of(event.query), event, BatchAnswer, certain=True)

    def listed(self, event: ListTransactions) -> Later[list[ListAnswer | Refused]]:
        """Of all partitions here; the answers are in no order that means anything."""
        return self._machines.submit_to_all(event, ListAnswer)

    def unavailable(self) -> list[Refused]:
        """Why transactions are not served, for every partition where they are not."""
        return self._machines.unavailable()

    # Following the topics

    async def open_topic(self, topic: TopicImage) -> None:
        """Machines come with the leadership of their partitions."""

    async def drop_topic(self, name: str, *, keep: bool = False) -> None:
        if name == TRANSACTIONS_TOPIC:
            self._machines.drop()

    async def close(self) -> None:
        self._machines.close()
        self._markers.close()

    # What machines order

    def _take_up(self, runner: Runner) -> None:
        """What was ordered before the replay, by this machine's predecessors."""
        if isinstance(machine := runner.machine, TransactionsMachine):
            self._markers.write(runner, list(machine.open_orders()))

    def _carry_out(self, runner: Runner, orders: tuple[object, ...]) -> None:
        self._markers.write(runner, [order for order in orders if isinstance(order, WriteMarkers)])


def _name_of(query: str) -> str:
    return coordinated_name(attempt_id(query, 0))
