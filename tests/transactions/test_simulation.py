"""Clients of both versions, late and repeated requests, timeouts, markers and deaths, in any order."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.scale import examples
from tests.transactions.clients import TIMEOUT_MS, Attempt, Client, Connection, Request
from tests.transactions.runner import Runner

from penstock.errors import Problem
from penstock.transactions.core.answers import AddAnswer, ProducerAnswer
from penstock.transactions.core.events import AbortTransaction, AddPartitions, InitProducerId, MarkersWritten
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.transactions.core.orders import WriteMarkers
from penstock.transactions.core.records import StateRecord, TransactionRecord
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import LAST_EPOCH, Producer, Transaction, TransactionState

IDS = ("new", "worn")
PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
WISHES = ("go on", "add", "add", "add", "commit", "commit", "abort")
# Of a request. Held: it arrives whenever it likes. Repeated: so, and its client does not wait for that. Uncommitted: it
# has arrived, but a death may take back what came of it. Finished: markers are written, too.
FATES = ("finished", "finished", "finished", "answered", "uncommitted", "held", "repeated", "repeated")
places = st.integers(0, 30)


class TransactionSimulation(RuleBasedStateMachine):
    @initialize(versions=st.tuples(st.integers(1, 2), st.integers(1, 2)))
    def start(self, versions: tuple[int, int]) -> None:
        self.numbers = itertools.count(1)
        self.names = itertools.count()
        self.runner = Runner(lambda: TransactionsMachine(TransactionLimits(), began=next(self.numbers)))
        # Its epochs will not last long.
        worn = Transaction(Producer(5, LAST_EPOCH - 1), TransactionState.EMPTY, TIMEOUT_MS, self.runner.now_ms)
        self.runner.append(TransactionRecord("worn", worn))
        self.runner.commit()
        self.runner.on_record = self.see_record
        self.runner.on_order = self.see_order
        self.connections: list[Connection] = []
        # What leaders ask in version 2: it may arrive whenever, and more than once.
        self.from_leaders: list[Request] = []
        self.clients: list[Client] = []
        self.attempts: dict[str, Attempt] = {}
        self.outcomes: dict[str, bool] = {}
        self.owners: dict[tuple[str, Producer], Client] = {}
        self.asked: list[MarkersWritten] = []
        self.written: set[tuple[str, int]] = set()
        for transactional_id, version in zip(IDS, versions, strict=True):
            self.clients.append(Client(f"client{next(self.names)}", transactional_id, version, self.connect))

    def connect(self) -> Connection:
        connection = Connection(next(self.numbers))
        self.connections.append(connection)
        return connection

    # What clients do

    @rule(moves=st.lists(st.tuples(places, st.sampled_from(WISHES), st.sampled_from(FATES)), min_size=1, max_size=8))
    def clients_work(self, moves: list[tuple[int, str, str]]) -> None:
        for place, wish, fate in moves:
            if self.clients[place % len(self.clients)].is_fenced:
                self.replace(place, 1 + place // 2 % 2)
            client = self.clients[place % len(self.clients)]
            if client.is_idle:
                self.ask(client, wish, place)
            if place % 3 == 0:
                self.let_a_ghost_in(place)
            if fate == "repeated":
                self.lose_patience(client)
            if client.awaited is not None and fate != "held":
                self.hand_over(client)
            if fate in ("answered", "finished", "repeated"):
                self.runner.commit()
            if fate in ("finished", "repeated"):
                self.write_markers(place)
                self.runner.commit()

    def ask(self, client: Client, wish: str, partition: int) -> None:
        """What was asked for once is asked for until it is answered; in version 1 there must be something to end."""
        if client.producer is None or (wish == "go on" and client.has_failed):
            client.initialise(goes_on=wish == "go on")
            return
        attempt = client.attempt
        if attempt.asked_to_commit or attempt.asked_to_abort:
            client.end(commit=attempt.asked_to_commit)
        elif wish in ("commit", "abort") and (attempt.acknowledged or (client.version >= 2 and wish == "abort")):
            client.end(commit=wish == "commit")
        else:
            request = client.add(partition % 4)
            if client.version >= 2:
                self.from_leaders.append(request)

    def hand_over(self, client: Client) -> None:
        """What it awaits arrives, and everything that it sent before on the same connection."""
        request = client.awaited
        if request is not None and request in self.from_leaders:
            self.submit(request)
        while client.connection.requests and client.awaited is request:
            self.deliver(client.connection)

    @rule(place=places)
    def loses_patience(self, place: int) -> None:
        self.lose_patience(self.clients[place % len(self.clients)])

    def lose_patience(self, client: Client) -> None:
        if isinstance(client.awaited, AddPartitions) and client.version >= 2:
            # The batch is given up, whatever becomes of it.
            client.awaited = None
        else:
            client.reconnect()

    @rule(place=places, version=st.integers(1, 2))
    def is_replaced(self, place: int, version: int) -> None:
        self.replace(place, version)

    def replace(self, place: int, version: int) -> None:
        """By another process, which begins by taking the id over. What the one before sent is still on its way."""
        old = self.clients[place % len(self.clients)]
        client = Client(f"client{next(self.names)}", old.transactional_id, version, self.connect)
        self.clients[place % len(self.clients)] = client
        client.initialise(goes_on=False)

    # What arrives late

    @rule(place=places, commits=st.booleans())
    def arrives_late(self, place: int, commits: bool) -> None:
        self.let_a_ghost_in(place)
        if self.from_leaders:
            self.submit(self.from_leaders[place % len(self.from_leaders)])
        if commits:
            self.runner.commit()

    def let_a_ghost_in(self, place: int) -> None:
        """A request whose client has long repeated it, or has gone."""
        current = [client.connection for client in self.clients]
        left = [connection for connection in self.connections if connection.requests and connection not in current]
        if left:
            self.deliver(left[place // 3 % len(left)])

    def deliver(self, connection: Connection) -> None:
        request = connection.requests.pop(0)
        if getattr(self.submit(request), "problem", None) is Problem.TRANSACTION_OVERTAKEN:
            connection.requests.clear()

    def submit(self, request: Request) -> MachineAnswer:
        before, written = self.runner.machine.state.find(request.transactional_id), len(self.runner.log)
        answer = self.runner.submit(request, lambda answer: self.tell(request, answer))
        after = self.runner.machine.state.find(request.transactional_id)
        if isinstance(answer, ProducerAnswer) and answer.problem is None:
            assert after is not None
            assert after.producer == answer.producer, "its client would not be let in"
        asker = request.producer if not isinstance(request, InitProducerId) else Producer(*_given(request))
        if before is not None and asker.id >= 0 and asker not in (before.producer, before.previous):
            assert len(self.runner.log) == written, "who was fenced got something done"
        return answer

    def tell(self, request: Request, answer: MachineAnswer) -> None:
        for client in self.clients:
            if client.awaited is not request:
                continue
            known = len(client.attempts)
            if isinstance(request, InitProducerId) and isinstance(answer, ProducerAnswer) and answer.problem is None:
                owner = self.owners.setdefault((client.transactional_id, answer.producer), client)
                assert owner is client, "two clients are the same producer"
            client.hear(request, answer)
            if len(client.attempts) > known:
                self.attempts[client.attempt.topic] = client.attempt

    # What happens to the coordinator

    @rule(lost=st.integers(0, 5), compacted=st.booleans())
    def coordinator_dies(self, lost: int, compacted: bool) -> None:
        self.runner.die(lost=lost, compacted=compacted)

    @rule(place=places)
    def markers_arrive(self, place: int) -> None:
        self.write_markers(place)

    def write_markers(self, place: int) -> None:
        """And those of some earlier transaction once more."""
        for order in self.runner.orders:
            self.asked.append(MarkersWritten(order.transactional_id, order.ends))
            self.written.add((order.transactional_id, order.ends))
            self.runner.submit(self.asked[-1])
        self.runner.orders.clear()
        if self.asked:
            self.runner.submit(self.asked[place % len(self.asked)])

    @rule(by_ms=st.sampled_from([1, 1000, TIMEOUT_MS]))
    def time_passes(self, by_ms: int) -> None:
        self.runner.advance(by_ms)

    @rule(transactional_id=st.sampled_from(IDS))
    def operator_aborts(self, transactional_id: str) -> None:
        self.runner.submit(AbortTransaction(transactional_id))

    # What must hold

    def see_record(self, record: StateRecord) -> None:
        """Also of what may be lost again."""
        assert isinstance(record, TransactionRecord)
        new, old = record.value, self.runner.machine.state.find(record.transactional_id)
        assert new is not None
        if old is None:
            return
        if new.producer.id == old.producer.id:
            assert new.producer.epoch >= old.producer.epoch, "an epoch goes back"
        else:
            assert new.producer.epoch == 0
        if new.state in PREPARED:
            assert old.is_ongoing, "what was decided is decided again"
            assert (new.topics, new.ends) == (old.topics, old.ends + 1)
        elif old.is_prepared:
            assert new.has_ended_with(old.state is TransactionState.PREPARE_COMMIT), "another outcome"
            assert not new.topics
            assert (record.transactional_id, old.ends) in self.written, "complete without markers"
        if new.is_ongoing:
            for row in new.topics:
                assert self.attempts[row.topic].producer == new.producer, "who was fenced got something done"

    def see_order(self, order: WriteMarkers) -> None:
        """Its decision is committed, so nothing may take it back."""
        stored = self.runner.machine.state.find(order.transactional_id)
        assert stored is not None
        assert stored.ends >= order.ends
        assert len(order.topics) == 1, "requests of two transactions made one"
        (row,) = order.topics
        attempt = self.attempts[row.topic]
        assert self.outcomes.setdefault(row.topic, order.commit) == order.commit, "a transaction ends twice"
        assert set(row.partitions) <= attempt.sent
        if order.commit:
            assert attempt.asked_to_commit, "nobody has asked for that"
            assert attempt.acknowledged <= set(row.partitions), "a part of it is left out"
        assert order.ending.producer.epoch <= LAST_EPOCH + 1

    @invariant()
    def clients_were_told_the_truth(self) -> None:
        for attempt in self.attempts.values():
            if attempt.told_commit is not None and (attempt.acknowledged or attempt.told_commit):
                assert self.outcomes.get(attempt.topic) == attempt.told_commit

    @invariant()
    def no_client_has_the_epoch_above_the_last(self) -> None:
        for client in self.clients:
            assert client.producer is None or client.producer.epoch <= LAST_EPOCH

    def teardown(self) -> None:
        """When all faults are over, everything that was prepared completes, and nothing hangs."""
        if not hasattr(self, "runner"):
            return
        self.runner.die()
        self.runner.advance(2 * TIMEOUT_MS)
        self.runner.commit()
        self.write_markers(0)
        self.runner.commit()
        for transactional_id, found in self.runner.machine.state.stored.items():
            assert not found.is_prepared and not found.is_ongoing, transactional_id
            added = AddPartitions(transactional_id, found.producer, ())
            # Whoever is fenced in the last epoch has to come for another id.
            expected = None if found.producer.is_for_clients else Problem.PRODUCER_FENCED
            assert self.runner.ask(added, AddAnswer).problem is expected
        for attempt in self.attempts.values():
            if attempt.acknowledged:
                assert attempt.topic in self.outcomes, "it was begun, and never ended"


def _given(request: InitProducerId) -> tuple[int, int]:
    return request.producer_id, request.producer_epoch


TestTransactionSimulation = TransactionSimulation.TestCase
TestTransactionSimulation.settings = settings(max_examples=examples(50), stateful_step_count=50)
