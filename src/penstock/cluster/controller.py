"""The controller while this broker has the office: its core on a store, one change of the store at a time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.clock import Clock, Timer
from penstock.cluster.again import Again
from penstock.cluster.core.controller import Controller
from penstock.cluster.core.delta import BrokerRow, PartitionRow, RemovedRow, TopicRow
from penstock.cluster.core.effects import Answer, AskLogEnds, Commit, Effect, Publish, Reload, Resign
from penstock.cluster.core.election import Electorate
from penstock.cluster.core.events import (
    BrokerFoundDead,
    BrokerStopping,
    Committed,
    Conflicted,
    Event,
    Request,
    Tick,
)
from penstock.cluster.core.preferred import PreferredLeaderOptions
from penstock.cluster.core.view import View
from penstock.cluster.metadata import connected, session_change
from penstock.cluster.reading import ClusterNodes, TopicDefaults, broker_rows, read_cluster
from penstock.cluster.registrations import Change as RegistrationChange
from penstock.cluster.registrations import RegistrationWatch
from penstock.cluster.showing import Failures
from penstock.cluster.tasks import Tasks
from penstock.coordination.controller_election import Office
from penstock.coordination.interface import Change, Check, Node, Store
from penstock.coordination.paths import CONTROLLER_EPOCH, NO_EPOCH
from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later

logger = logging.getLogger(__name__)

# What is due now and cannot be done now is not worth a busy loop.
_PAUSE_MS = 10
# Between two looks at a store that holds what it should not.
_MENDING_S = 5.0
_MEND = "mend the node: until then no broker that registers is admitted"
_OUT_OF_OFFICE = Refused(Problem.NOT_CONTROLLER, "this broker is not the controller any more")


class Publisher(Protocol):
    """Tells all brokers, this one included, in the order of the calls; done when this one has carried it out."""

    def publish(
        self,
        topics: Sequence[TopicRow] = (),
        partitions: Sequence[PartitionRow] = (),
        removed: Sequence[RemovedRow] = (),
        brokers: Sequence[BrokerRow] | None = None,
    ) -> Later[Failures]: ...

    def told(self) -> Later[None]:
        """When every broker has carried out all that was published before, or has gone."""

    def begin(self, nodes: ClusterNodes) -> Later[Failures]:
        """What the store holds, when it was read anew: whatever was told before may have missed something."""


class ActiveController:
    """`when_over` is called once, when another has the office or the session that held it has ended."""

    def __init__(
        self,
        store: Store,
        office: Office,
        publisher: Publisher,
        defaults: TopicDefaults,
        preferred: PreferredLeaderOptions,
        clock: Clock,
    ) -> None:
        self.office = office
        self.publisher = publisher
        self.defaults = defaults
        self._store = store
        self._clock = clock
        self._core = Controller(office.version, preferred)
        # Everything that reads or changes nodes which the core decides about: so what it knows is what is there.
        self._turn = asyncio.Lock()
        # By broker, the epoch in which it was found dead, or wants to stop.
        self._dead: dict[int, int] = {}
        self._stopping: dict[int, int] = {}
        # Topics that have flush.policy=acked from now on, of which brokers may have acknowledged what they have not
        # synced yet. Until all have, whoever dies is remembered as before: it may be the only one that has it.
        self.syncing: dict[str, TopicRow] = {}
        self._ids = itertools.count(1)
        self._answers: dict[int, Later[Answer]] = {}
        self._tasks = Tasks("the controller")
        self._timer: Timer | None = None
        self._registrations: RegistrationWatch | None = None
        self._is_over = False
        # Everything is to be read anew, when its turn comes.
        self._is_due = False
        # Nothing announces that a node was mended.
        self._again = Again(clock, self._reload)
        self._when_over: list[Callable[[], None]] = []
        self.when_asked: Callable[[AskLogEnds], None] = lambda question: None

    @property
    def view(self) -> View:
        return self._core.view

    @property
    def electorate(self) -> Electorate:
        """Who may lead and be in sync by all that is known now, for states of new partitions."""
        epochs = {node_id: broker.broker_epoch for node_id, broker in self.view.brokers.items()}
        dead = {node_id for node_id, epoch in self._dead.items() if epoch >= epochs.get(node_id, NO_EPOCH)}
        stopping = {node_id for node_id, epoch in self._stopping.items() if epoch == epochs.get(node_id)}
        return Electorate(self.view.live - dead, stopping)

    @property
    def is_over(self) -> bool:
        return self._is_over

    def when_over(self, callback: Callable[[], None]) -> None:
        self._when_over.append(callback)

    async def start(self) -> ClusterNodes:
        """Done when this broker knows what it has read. Raises PenstockError when the store cannot be read."""
        self._registrations = RegistrationWatch(self._store, self._turn, lambda: self.view.brokers, self._registered)
        async with self._turn:
            nodes = await read_cluster(self._store)
            if self._is_over:
                raise PenstockError(_OUT_OF_OFFICE.problem, _OUT_OF_OFFICE.text)
            begun = self._begin(nodes)
        await begun.wait()
        return nodes

    def close(self, why: Refused = _OUT_OF_OFFICE) -> None:
        """Nothing more is decided or written; all that was asked is refused."""
        if self._is_over:
            return
        self._is_over = True
        if self._registrations is not None:
            self._registrations.close()
        if self._timer is not None:
            self._timer.cancel()
        self._again.close()
        self._tasks.cancel()
        answers, self._answers = self._answers, {}
        for request_id, later in answers.items():
            later.complete(Answer(request_id, why))
        for callback in self._when_over:
            callback()

    # What is asked and told

    def ask(self, request_of: Callable[[int], Request]) -> Later[Answer]:
        """`request_of` makes the request with the id that it is given."""
        request_id = next(self._ids)
        later: Later[Answer] = Later()
        if self._is_over:
            later.complete(Answer(request_id, _OUT_OF_OFFICE))
            return later
        self._answers[request_id] = later
        self.tell(request_of(request_id))
        return later

    def doubt(self) -> None:
        """Another may be in office: look."""
        if not self._is_over:
            self._reload()

    def tell(self, event: Event) -> None:
        if self._is_over:
            return
        match event:
            case BrokerFoundDead():
                self._dead[event.node_id] = max(event.broker_epoch, self._dead.get(event.node_id, NO_EPOCH))
            case BrokerStopping():
                self._stopping[event.node_id] = event.broker_epoch
                # Before it leaves any ISR: a leader that does not know why would ask for it to come back, and then has
                # to wait for it.
                self.publisher.publish(brokers=broker_rows(self.view.brokers, self._stopping))
        self._carry_out(self._core.step(event, self._clock.now_ms()))

    async def transact(
        self, plan: Callable[[Sequence[Node | None]], Sequence[Change]], then: Callable[[], None], paths: Sequence[str]
    ) -> None:
        """One transaction beside those of the core; `plan` gets what is at `paths`, which nobody changes meanwhile, and

        `then` runs before anything else is decided. Raises PenstockError: NOT_CONTROLLER, and what the store raises.
        When it is not known whether it was carried out, everything is read anew.
        """
        async with self._turn:
            if self._is_over:
                raise PenstockError(_OUT_OF_OFFICE.problem, _OUT_OF_OFFICE.text)
            found = await self._store.read_many(paths) if paths else ()
            changes = [Check(CONTROLLER_EPOCH, self.office.version), *plan(found)]
            try:
                await self._store.commit(changes)
            except PenstockError as error:
                await self._judge(error)
                raise
            then()

    async def _judge(self, error: PenstockError) -> None:
        """A conflict of a transaction of topics: either there is another controller, or a node was left by somebody."""
        if error.problem is not Problem.STORE_CONFLICT:
            self._reload()
            return
        node = await self._store.read(CONTROLLER_EPOCH)
        if node is None or node.version != self.office.version:
            self.close()
            raise PenstockError(_OUT_OF_OFFICE.problem, _OUT_OF_OFFICE.text) from error

    # Carrying out

    def _begin(self, nodes: ClusterNodes) -> Later[Failures]:
        begun = self.publisher.begin(nodes)
        view, left_out = nodes.view(self.defaults)
        for topic, why in left_out.items():
            logger.error("controller.topic.left.alone", extra={"topic": topic, "why": str(why), "do": _MEND})
        self._again.look(bool(left_out))
        for name, row in self.syncing.items():
            if view.topic_id(name) == row.topic_id:
                view.configure_topic(name, view.settings(name)._replace(acknowledges_unsynced=True))
        self._carry_out(self._core.start(view, self._clock.now_ms()))
        return begun

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Commit():
                    self._tasks.spawn(self._commit(effect))
                case Publish():
                    self._publish(effect)
                case Answer():
                    if (later := self._answers.pop(effect.request_id, None)) is not None:
                        later.complete(effect)
                case AskLogEnds():
                    self.when_asked(effect)
                case Reload():
                    self._reload()
                case Resign():
                    self.close()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._core.next_deadline_ms()
        if deadline_ms is not None and not self._is_over:
            self._timer = self._clock.call_at(
                max(deadline_ms, self._clock.now_ms() + _PAUSE_MS), lambda: self.tell(Tick())
            )

    def _publish(self, publish: Publish) -> None:
        partitions = [
            PartitionRow(row.key.topic, row.topic_id, row.key.partition, *row.node) for row in publish.partitions
        ]
        brokers = broker_rows(self.view.brokers, self._stopping) if publish.brokers else None
        self.publisher.publish(partitions=partitions, brokers=brokers)

    async def _commit(self, commit: Commit) -> None:
        async with self._turn:
            if self._is_over or not self._core.awaits(commit.commit_id):
                return
            try:
                versions = await self._store.commit(commit.changes)
            except PenstockError as error:
                if error.problem is not Problem.STORE_CONFLICT:
                    logger.warning("controller.commit.failed", extra={"why": str(error)})
                    self._reload()
                    return
            else:
                self.tell(Committed(commit.commit_id, versions))
                return
            paths = [change.path for change in commit.changes]
            try:
                await self._store.sync()
                nodes = await self._store.read_many(paths)
            except PenstockError:
                self._reload()
                return
            self.tell(Conflicted(commit.commit_id, dict(zip(paths, nodes, strict=True))))

    def _reload(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._tasks.spawn(self._read_anew())

    async def _read_anew(self) -> None:
        """Until it succeeds: nothing may be decided from what is not certain."""
        async with self._turn:
            # Whoever doubts from here on may know more than what is read now.
            self._is_due = False
            while not self._is_over:
                try:
                    nodes = await read_cluster(self._store)
                except PenstockError as error:
                    logger.warning("controller.read.failed", extra={"why": str(error)})
                    if error.problem is not Problem.STORE_UNAVAILABLE:
                        # Somebody has to see to it.
                        await session_change(self._store, _MENDING_S)
                    await connected(self._store)
                else:
                    self._begin(nodes)
                    return

    def _registered(self, changes: list[RegistrationChange]) -> None:
        for change in changes:
            self.tell(change)
        self.publisher.publish(brokers=broker_rows(self.view.brokers, self._stopping))
