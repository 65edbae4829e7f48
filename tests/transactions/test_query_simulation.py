"""Drivers and tasks that die, are replaced, repeat themselves and come late, against rows that are counted one by one.

A batch always has the same rows, but every run divides them among its tasks in its own way, as Spark does. What the
machine orders to be committed is put together row by row: of every batch that it says is committed each row is there
once, of every other none.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.scale import examples
from tests.transactions.runner import Runner

from penstock.transactions.core.answers import AddAnswer
from penstock.transactions.core.events import AddPartitions, MarkersWritten
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.transactions.core.orders import WriteMarkers
from penstock.transactions.core.query_answers import AttemptAnswer, BatchAnswer
from penstock.transactions.core.query_events import AbortBatch, AttemptProducer, CommitBatch, OpenAttempt
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import Producer, TopicPartitions

QUERIES = ("one", "two")
ROWS = range(6)
TIMEOUT_MS = 60_000
Request = OpenAttempt | AddPartitions | CommitBatch | AbortBatch
# Of a request. Held: it arrives whenever it likes. Repeated: so, and it is sent again. Uncommitted: it has arrived, but
# a death may take back what came of it.
FATES = ("answered", "answered", "answered", "answered", "uncommitted", "held", "repeated")
places = st.integers(0, 40)


@dataclass(eq=False)
class Attempt:
    """Of a task: what it wrote, under a topic of its own, so that orders tell whose markers they are."""

    query: str
    batch_id: int
    topic: str
    rows: tuple[int, ...]
    named: AttemptProducer
    is_acknowledged: bool = False


@dataclass(eq=False)
class Task:
    rows: tuple[int, ...]
    attempts: list[Attempt] = field(default_factory=list)
    is_skipped: bool = False

    @property
    def is_done(self) -> bool:
        return self.is_skipped or any(attempt.is_acknowledged for attempt in self.attempts)


@dataclass(eq=False)
class Driver:
    query: str
    run: str
    batch_id: int
    tasks: list[Task]
    is_dead: bool = False
    awaited: Request | None = None
    awaiting: Task | Attempt | None = None


class QuerySimulation(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.names = itertools.count()
        self.runner = Runner(lambda: TransactionsMachine(TransactionLimits()))
        self.runner.on_order = self.see_order
        # By query: the batch that its checkpoint has as done.
        self.checkpoints = dict.fromkeys(QUERIES, -1)
        self.attempts: dict[str, Attempt] = {}
        self.outcomes: dict[str, bool] = {}
        self.on_their_way: list[Request] = []
        self.asked: list[MarkersWritten] = []
        self.drivers = [self.begin(query, 2) for query in QUERIES]

    def begin(self, query: str, tasks: int) -> Driver:
        run = f"run{next(self.names)}"
        return Driver(query, run, self.checkpoints[query] + 1, self.divided(tasks))

    def divided(self, count: int) -> list[Task]:
        return [Task(tuple(ROWS[place::count])) for place in range(count)]

    # What drivers and tasks do

    @rule(moves=st.lists(st.tuples(places, st.sampled_from(FATES)), min_size=1, max_size=12))
    def drivers_work(self, moves: list[tuple[int, str]]) -> None:
        for place, fate in moves:
            driver = self.drivers[place % len(self.drivers)]
            if driver.is_dead:
                self.replace(driver, 1 + place % 3)
                continue
            request = driver.awaited or self.ask(driver, place)
            if fate in ("held", "repeated"):
                self.on_their_way.append(request)
            if fate == "held":
                driver.awaited = request
                continue
            self.submit(driver, request)
            if fate in ("answered", "repeated"):
                self.runner.commit()

    def ask(self, driver: Driver, place: int) -> Request:
        """The next thing to do: open, write, commit. A second attempt of a task may come before that."""
        undone = [task for task in driver.tasks if not task.is_done]
        if undone or (place % 5 == 0 and not any(task.is_skipped for task in driver.tasks)):
            task = undone[place % len(undone)] if undone else driver.tasks[place % len(driver.tasks)]
            unwritten = [attempt for attempt in task.attempts if not attempt.is_acknowledged]
            if unwritten and place % 7:
                attempt = unwritten[-1]
                driver.awaiting = attempt
                topics = (TopicPartitions(attempt.topic, (0,)),)
                driver.awaited = AddPartitions(attempt.named.transactional_id, attempt.named.producer, topics)
            else:
                driver.awaiting = task
                driver.awaited = OpenAttempt(driver.query, driver.run, driver.batch_id, TIMEOUT_MS)
            return driver.awaited
        named = []
        for task in driver.tasks:
            whole = [attempt.named for attempt in task.attempts if attempt.is_acknowledged]
            named += whole[-1:]
        driver.awaited = CommitBatch(driver.query, driver.run, driver.batch_id, tuple(named))
        return driver.awaited

    def submit(self, driver: Driver | None, request: Request) -> None:
        if driver is not None:
            driver.awaited = request
        self.runner.submit(request, lambda answer: self.tell(request, answer))

    def tell(self, request: Request, answer: MachineAnswer) -> None:
        for driver in self.drivers:
            if driver.awaited is request:
                driver.awaited = None
                self.hear(driver, request, answer)

    def hear(self, driver: Driver, request: Request, answer: MachineAnswer) -> None:
        assert isinstance(answer, AttemptAnswer | AddAnswer | BatchAnswer)
        if answer.problem is not None and isinstance(driver.awaiting, Attempt) and isinstance(answer, AddAnswer):
            # The task fails, and is tried again.
            for each in driver.tasks:
                each.attempts = [attempt for attempt in each.attempts if attempt is not driver.awaiting]
        elif answer.problem is not None:
            # The query fails.
            driver.is_dead = True
            self.on_their_way.append(AbortBatch(driver.query, driver.run, driver.batch_id))
        elif isinstance(answer, AttemptAnswer):
            assert isinstance(driver.awaiting, Task)
            self.begin_attempt(driver, driver.awaiting, answer)
        elif isinstance(answer, AddAnswer):
            assert isinstance(driver.awaiting, Attempt)
            driver.awaiting.is_acknowledged = True
        else:
            assert isinstance(request, CommitBatch)
            assert answer.is_repeated or len(request.attempts) == len(driver.tasks), (
                "rows are missing, and nobody knows"
            )
            self.checkpoints[driver.query] = max(self.checkpoints[driver.query], driver.batch_id)
            driver.batch_id += 1
            driver.tasks = self.divided(len(driver.tasks))

    def begin_attempt(self, driver: Driver, task: Task, answer: AttemptAnswer) -> None:
        if answer.is_committed:
            task.is_skipped = True
            return
        topic = f"topic{next(self.names)}"
        named = AttemptProducer(answer.transactional_id, answer.producer)
        self.attempts[topic] = Attempt(driver.query, driver.batch_id, topic, task.rows, named)
        task.attempts.append(self.attempts[topic])

    @rule(place=places, tasks=st.integers(1, 4), is_seen=st.booleans())
    def driver_is_replaced(self, place: int, tasks: int, is_seen: bool) -> None:
        """By another process on the same checkpoint; the one before may live on and know nothing of it."""
        driver = self.drivers[place % len(self.drivers)]
        if is_seen:
            driver.is_dead = True
        self.replace(driver, tasks)

    def replace(self, driver: Driver, tasks: int) -> None:
        new = self.begin(driver.query, tasks)
        if driver.is_dead:
            if driver.awaited is not None:
                self.on_their_way.append(driver.awaited)
            self.drivers[self.drivers.index(driver)] = new
        elif len(self.drivers) < 5:
            self.drivers.append(new)

    @rule(place=places, commits=st.booleans())
    def something_arrives_late(self, place: int, commits: bool) -> None:
        """And may come again."""
        if self.on_their_way:
            self.submit(None, self.on_their_way[place % len(self.on_their_way)])
        if commits:
            self.runner.commit()

    # What happens to the coordinator

    @rule(lost=st.integers(0, 8), compacted=st.booleans())
    def coordinator_dies(self, lost: int, compacted: bool) -> None:
        self.runner.die(lost=lost, compacted=compacted)

    @rule(place=places)
    def markers_arrive(self, place: int) -> None:
        self.write_markers(place)

    def write_markers(self, place: int) -> None:
        for order in self.runner.orders:
            self.asked.append(MarkersWritten(order.transactional_id, order.ends))
            self.runner.submit(self.asked[-1])
        self.runner.orders.clear()
        if self.asked:
            self.runner.submit(self.asked[place % len(self.asked)])

    @rule(by_ms=st.sampled_from([0, 1, 1000, TIMEOUT_MS]))
    def time_passes(self, by_ms: int) -> None:
        self.runner.advance(by_ms)

    # What must hold

    def see_order(self, order: WriteMarkers) -> None:
        (row,) = order.topics
        assert self.outcomes.setdefault(row.topic, order.commit) == order.commit, "a transaction ends twice"
        attempt = self.attempts[row.topic]
        written_as = Producer(order.ending.producer.id, order.ending.producer.epoch - 1)
        assert written_as == attempt.named.producer, "the markers are not this attempt's"

    @invariant()
    def every_row_of_what_is_committed_is_there_once(self) -> None:
        found: dict[tuple[str, int], Counter[int]] = {}
        for topic, is_committed in self.outcomes.items():
            if is_committed:
                attempt = self.attempts[topic]
                found.setdefault((attempt.query, attempt.batch_id), Counter()).update(attempt.rows)
        for rows in found.values():
            assert set(rows.values()) == {1}, "rows are doubled"
            assert set(rows) == set(ROWS), "rows are missing"
        for query, last in self.checkpoints.items():
            for batch_id in range(last + 1):
                assert (query, batch_id) in found, "the checkpoint is ahead"

    @invariant()
    def the_machine_says_the_same(self) -> None:
        for query, last in self.checkpoints.items():
            if last >= 0:
                assert self.runner.machine.state.queries[query].batch_id >= last

    def teardown(self) -> None:
        """When all faults are over nothing is left open, and a new driver of each query gets its batch through."""
        if not hasattr(self, "runner"):
            return
        self.runner.die()
        for query in QUERIES:
            driver = self.begin(query, 3)
            self.drivers = [driver]
            batch_id = driver.batch_id
            while driver.batch_id == batch_id:
                self.submit(driver, self.ask(driver, 1))
                self.runner.commit()
                assert not driver.is_dead
        self.runner.run_due()
        self.runner.commit()
        self.write_markers(0)
        self.runner.commit()
        for transactional_id, found in self.runner.machine.state.stored.items():
            assert not found.is_prepared and not found.is_ongoing, transactional_id
        for attempt in self.attempts.values():
            assert not attempt.is_acknowledged or attempt.topic in self.outcomes, "it was begun, and never ended"
        self.every_row_of_what_is_committed_is_there_once()


TestQuerySimulation = QuerySimulation.TestCase
TestQuerySimulation.settings = settings(max_examples=examples(50), stateful_step_count=40)
