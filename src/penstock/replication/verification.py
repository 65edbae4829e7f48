"""Batches of transactions that wait until the coordinator has said that their transaction is under way.

A batch that came behind the marker of its transaction would keep the last stable offset where it is for ever. So the
first batch of a transaction in a log waits for the coordinator, and what its producer sends to that log meanwhile waits
behind it (ADR 0008). Everything else goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.clock import Clock
from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later
from penstock.replication.partition import NOT_LEADING, Partition
from penstock.replication.replicas import Replicas
from penstock.replication.transaction_markers import has_open_transaction
from penstock.replication.waiters import HANDING_OVER
from penstock.storage.core.producer_state import ProducerEntry
from penstock.storage.log import Appended
from penstock.units import KIB, MIB
from penstock.wire.batch import BatchHeader

# Of one producer for one partition. Idempotent clients have five requests under way at most.
MOST_BATCHES = 16
# Of all together; they are copies, which the memory for requests knows nothing of.
MOST_BYTES = 64 * MIB
# What the smallest takes, with all that is around it.
_LEAST_BYTES = KIB
# A marker that comes again while the question is under way is rare; one that comes again and again is a fault.
_MOST_QUESTIONS = 4

_HELD = Refused(Problem.BUSY, "it waits for the coordinator of its transaction")
_TOO_MUCH_WAITS = Refused(
    Problem.BUSY, "too much waits for the coordinators of transactions: the batch has to be sent again"
)
_CHANGED_TOO_OFTEN = Refused(Problem.BUSY, "the producer's transactions came and went while they were asked about")
_ASK_AGAIN = frozenset(
    {
        Problem.CONCURRENT_TRANSACTIONS,
        Problem.NOT_COORDINATOR,
        Problem.COORDINATOR_LOADING,
        Problem.COORDINATOR_NOT_AVAILABLE,
        Problem.NOT_LEADER,
        Problem.NOT_ENOUGH_REPLICAS,
        Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Problem.REQUEST_TIMED_OUT,
        Problem.STORE_UNAVAILABLE,
        Problem.STORAGE_FAILED,
        Problem.BUSY,
    }
)


class Question(NamedTuple):
    """May this producer write to this partition? `adds`: put it into the transaction, as in version 2 (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic: str
    partition: int
    adds: bool


class Coordinators(Protocol):
    def ask(self, question: Question) -> Later[Refused | None]:
        """None: the transaction is under way, and the partition will have its marker. It is always answered."""


class Transaction(NamedTuple):
    """What a request says of the transaction that its batches are in."""

    transactional_id: str
    adds: bool


class _Guard(NamedTuple):
    """Void when the partition has led anew, or anything of the producer has come into its log, such as a marker."""

    leader_epoch: int
    entry: ProducerEntry | None


class _Waiting(NamedTuple):
    header: BatchHeader
    # A copy.
    records: memoryview
    outcome: Later[Appended | Refused]


@dataclass(eq=False)
class _Queue:
    guard: _Guard
    batches: list[_Waiting] = field(default_factory=list)
    questions: int = 1


class Verification:
    """All methods run on the event loop's thread."""

    def __init__(self, replicas: Replicas, coordinators: Coordinators, clock: Clock) -> None:
        self._replicas = replicas
        self._coordinators = coordinators
        self._clock = clock
        self._queues: dict[tuple[Partition, Question], _Queue] = {}
        self.waiting_bytes = 0

    def append(
        self, partition: Partition, records: memoryview, sender: object, transaction: Transaction, *, for_all: bool
    ) -> Appended | Refused | Later[Appended | Refused]:
        """As `Replicas.append`; batches that are in no transaction pass, too."""
        held: Later[Appended | Refused] | None = None

        def hold(header: BatchHeader) -> Refused | None:
            nonlocal held
            outcome = self._held(partition, records, header, transaction)
            if isinstance(outcome, Later):
                held = outcome
                return _HELD
            return outcome

        result = self._replicas.append(partition, records, sender, for_all=for_all, hold=hold)
        return result if held is None else held

    def _held(
        self, partition: Partition, records: memoryview, header: BatchHeader, transaction: Transaction
    ) -> Later[Appended | Refused] | Refused | None:
        """None: it need not wait."""
        if partition.leadership is None:
            return NOT_LEADING
        producer_id, epoch = header.producer_id, header.producer_epoch
        name, adds = transaction
        question = Question(name, producer_id, epoch, partition.topic, partition.index, adds)
        queue = self._queues.get((partition, question))
        if queue is None and has_open_transaction(partition, producer_id, epoch):
            return None
        size = max(len(records), _LEAST_BYTES)
        has_room = self.waiting_bytes + size <= MOST_BYTES or not self.waiting_bytes
        if not has_room or (queue is not None and len(queue.batches) >= MOST_BATCHES):
            partition.log.producer_states.refuse(header, self._clock.now_ms())
            return _TOO_MUCH_WAITS
        self.waiting_bytes += size
        waiting = _Waiting(header, memoryview(bytearray(records)), Later())
        if queue is not None:
            queue.batches.append(waiting)
            return waiting.outcome
        queue = self._queues[partition, question] = _Queue(_guard(partition, producer_id), [waiting])
        self._ask(partition, question, queue)
        return waiting.outcome

    def _ask(self, partition: Partition, question: Question, queue: _Queue) -> None:
        asked = self._coordinators.ask(question)
        asked.when_done(lambda done: self._answered(partition, question, queue, done.result()))

    def _answered(self, partition: Partition, question: Question, queue: _Queue, refused: Refused | None) -> None:
        if refused is None and (handed_over := partition.hand_over.under_way) is not None:
            # Another one leads soon, with what was taken before.
            handed_over.when_done(lambda _: self._answered(partition, question, queue, HANDING_OVER))
            return
        if refused is None:
            now = _guard(partition, question.producer_id)
            if partition.leadership is None or now.leader_epoch != queue.guard.leader_epoch:
                refused = NOT_LEADING
            elif now.entry is not queue.guard.entry:
                if queue.questions < _MOST_QUESTIONS:
                    # What the coordinator said may be of a transaction that is over by now.
                    queue.guard, queue.questions = now, queue.questions + 1
                    self._ask(partition, question, queue)
                    return
                refused = _CHANGED_TOO_OFTEN
        del self._queues[partition, question]
        self.waiting_bytes -= sum(max(len(waiting.records), _LEAST_BYTES) for waiting in queue.batches)
        if refused is None:
            results = [self._append(partition, question, each) for each in queue.batches]
        else:
            results = [self._refused(partition, each.header, refused) for each in queue.batches]
        # All of them first: whoever is told may send the next at once.
        for waiting, result in zip(queue.batches, results, strict=True):
            waiting.outcome.complete(result)

    def _append(self, partition: Partition, question: Question, waiting: _Waiting) -> Appended | Refused:
        """Else a producer that is not known may begin anywhere. Under version 2 sequences begin anew with every

        transaction, so that what does not begin with 0 has overtaken what does.
        """
        header, sequence = waiting.header, waiting.header.base_sequence
        if question.adds and sequence and partition.log.producer_states.find(header.producer_id) is None:
            text = f"producer {header.producer_id} begins a transaction with sequence {sequence}, not 0"
            error = PenstockError(Problem.OUT_OF_ORDER_SEQUENCE, text)
            return self._replicas.overtaking.judge(partition, header, error, self._clock.now_ms())
        return self._replicas.append_own(partition, waiting.records, header)

    def _refused(self, partition: Partition, header: BatchHeader, refused: Refused) -> Appended | Refused:
        """In the words that a producer expects."""
        if refused.problem in _ASK_AGAIN:
            partition.log.producer_states.refuse(header, self._clock.now_ms())
            is_said = refused is NOT_LEADING or refused is HANDING_OVER
            return refused if is_said else Refused(Problem.BUSY, refused.text)
        if refused.problem is Problem.PRODUCER_FENCED:
            return Refused(Problem.INVALID_PRODUCER_EPOCH, refused.text)
        return refused


def _guard(partition: Partition, producer_id: int) -> _Guard:
    return _Guard(partition.leader_epoch, partition.log.producer_states.find(producer_id))
