"""What this broker knows of the cluster, kept in step with what controllers tell and what the store holds.

Changes are carried out one after another, in the order in which they were told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.clock import Clock
from penstock.cluster.again import Again
from penstock.cluster.core.delta import BrokerRow, Delta, Place
from penstock.cluster.core.image import Image
from penstock.cluster.core.known_topics import KnownTopics
from penstock.cluster.reading import ClusterNodes, broker_rows, read_cluster
from penstock.cluster.showing import Failures, Follower, Showing
from penstock.cluster.tasks import Tasks
from penstock.coordination.identity import ForeignStore, check_cluster_id, check_epoch
from penstock.coordination.interface import SessionState, Store
from penstock.coordination.paths import NO_EPOCH
from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later

logger = logging.getLogger(__name__)

# After a failure that nothing announces the end of.
_RETRY_S = 0.1
# Between two looks at a store that is not this cluster's.
_FOREIGN_S = (0.1, 1, 2, 5, 10, 30)
_MET_A_BUG = PenstockError(Problem.STORAGE_FAILED, "following the metadata met a bug, which the log tells")


class _Work(NamedTuple):
    """Nodes that were read, or a delta, or neither: then the store is to be read."""

    nodes: ClusterNodes | None
    delta: Delta | None
    done: Later[Failures]
    # What could not be opened is to be tried once more.
    again: bool = False


class Metadata:
    def __init__(self, image: Image, store: Store, clock: Clock) -> None:
        self._image = image
        self._store = store
        self._topics = KnownTopics()
        self._showing = Showing(image, self._topics)
        self._work: list[_Work] = []
        self._tasks = Tasks("following the metadata")
        self._is_working = False
        # Of the newest delta.
        self.place: Place = (NO_EPOCH, NO_EPOCH, 0)
        self._closed = False
        # Nothing announces that a disk has room again, or that files can be opened.
        self._again = Again(clock, lambda: self.load() if self._is_behind else self.settled(again=True))
        # The newest attempt to read the store failed: something may be missing here.
        self._is_behind = False
        # What was not understood then: it is shown as it was.
        self._unreadable: Mapping[str, PenstockError] = {}
        # Why what the store holds is not taken over, for whoever asks how this broker is.
        self.refused: str | None = None

    @property
    def cluster_id(self) -> str:
        return self._image.cluster_id

    @property
    def node_id(self) -> int:
        return self._image.node_id

    def follow(self, follower: Follower) -> None:
        """Before anything is loaded; the first that follows is the first that is told."""
        self._showing.follow(follower)

    def when_brokers_change(self, callback: Callable[[], None]) -> None:
        """Called when the image has other brokers, other epochs or another controller."""
        self._showing.when_brokers_change(callback)

    def broker_row(self, node_id: int) -> BrokerRow | None:
        return self._showing.broker_row(node_id)

    @property
    def failures(self) -> Mapping[str, str]:
        """Why topics could not be opened or understood, for whoever asks how this broker is."""
        return {**self._showing.failures, **{name: str(error) for name, error in self._unreadable.items()}}

    # What is told

    def load(self) -> Later[Failures]:
        """Everything anew from the store; done when it can be used."""
        return self._add(_Work(None, None, Later()))

    def take(self, nodes: ClusterNodes, controller_epoch: int) -> Later[Failures]:
        """What this broker, as the controller, has read. When a later one has told something since, that is not in it:

        a topic that is missing there may be new, and not gone.
        """
        if controller_epoch < self.place[0]:
            return self.load()
        return self._add(_Work(nodes, None, Later()))

    def take_controller(self, controller: int) -> None:
        """Who it is by the store, or NO_LEADER; a controller tells it itself with what it sends."""
        self._showing.take_controller(controller)

    def apply(self, delta: Delta) -> Later[Failures]:
        """From the controller in this process: none is ever missed. Void if there is a later one."""
        if delta.controller_epoch < self.place[0]:
            return Later.of({})
        self.place = delta.place
        return self._add(_Work(None, delta, Later()))

    def receive(self, delta: Delta) -> Later[Failures | Refused]:
        """From another broker, the controller. What comes behind a later one, or is for another life, is refused."""
        # While it registers, what is sent to the new life may come before its epoch is known.
        if self._image.own_epoch not in (NO_EPOCH, delta.broker_epoch):
            text = f"it is for broker epoch {delta.broker_epoch}, this is {self._image.own_epoch}"
            return Later.of(Refused(Problem.STALE_BROKER_EPOCH, text))
        controller_epoch, broker_epoch, sequence = self.place
        if delta.controller_epoch < controller_epoch:
            return Later.of(Refused(Problem.NOT_CONTROLLER, f"controller {controller_epoch} has begun"))
        if delta.place <= self.place:
            return Later.of(Refused(Problem.INVALID_REQUEST, "it came late: a later one is here already"))
        is_next = delta.place == (controller_epoch, broker_epoch, sequence + 1)
        self.place = delta.place
        if not is_next:
            self.load()
        return self._add(_Work(None, delta, Later())).map(lambda failures: failures)

    def set_own_epoch(self, broker_epoch: int) -> None:
        """The registration that counts from now on, or NO_EPOCH: the session is over."""
        if broker_epoch != self._image.own_epoch:
            self._showing.set_own_epoch(broker_epoch)
            self.settled()

    def settled(self, *, again: bool = False) -> Later[Failures]:
        """Done when all that was told before has been carried out; `again`: what failed then, once more."""
        return self._add(_Work(None, Delta(self._image.controller_id, NO_EPOCH, 0), Later(), again))

    async def close(self) -> None:
        self._closed = True
        self._again.close()
        await self._tasks.ended()
        for work in self._work:
            work.done.complete({})

    # Carrying it out

    def _add(self, work: _Work) -> Later[Failures]:
        if self._closed:
            work.done.complete({})
            return work.done
        self._work.append(work)
        if not self._is_working:
            self._is_working = True
            self._tasks.spawn(self._run())
        return work.done

    async def _run(self) -> None:
        """One piece. The next has a task of its own: a bug in one neither stops the others nor whoever waits for it."""
        work = self._work.pop(0)
        try:
            if work.delta is not None:
                failures = await self._apply(work.delta, self._showing.failures if work.again else ())
            else:
                self._is_behind = True
                failures = await self._take(work.nodes or await self._read())
                self._is_behind = bool(self._unreadable)
        except PenstockError as error:
            logger.error("metadata.not.read", extra={"why": str(error)})
            work.done.fail(error)
        else:
            work.done.complete(failures)
        finally:
            if self._closed:
                work.done.complete({})
            work.done.fail(_MET_A_BUG)
            self._is_working = bool(self._work) and not self._closed
            if self._is_working:
                self._tasks.spawn(self._run())
            self._again.look(self._is_behind or bool(self._showing.failures))

    async def _read(self) -> ClusterNodes:
        """As often as it takes: without it this broker does not know what it missed."""
        pauses_s = iter(_FOREIGN_S)
        while True:
            known_epoch = self.place[0]
            try:
                nodes = await read_cluster(self._store)
                if self._topics.lacking(nodes.topics, nodes.unreadable):
                    nodes = await read_cluster(self._store, by_quorum=True)
                check_cluster_id(nodes.cluster_id, self.cluster_id)
                check_epoch(nodes.controller_epoch, known_epoch)
            except ForeignStore as error:
                self.refused = str(error)
                logger.error("metadata.refused", extra={"why": str(error)})
                await session_change(self._store, next(pauses_s, _FOREIGN_S[-1]))
            except PenstockError as error:
                if error.problem is not Problem.STORE_UNAVAILABLE:
                    raise
                logger.warning("metadata.read.failed", extra={"why": str(error)})
                await connected(self._store)
            else:
                self.refused = None
                return nodes

    async def _take(self, nodes: ClusterNodes) -> Failures:
        check_cluster_id(nodes.cluster_id, self.cluster_id)
        self._unreadable = nodes.unreadable
        for name, error in nodes.unreadable.items():
            logger.error("topic.unreadable", extra={"topic": name, "why": str(error), "do": "mend the node"})
        for name in self._topics.replace_all(nodes.topics, nodes.partitions, nodes.unreadable):
            # Nobody said that it was deleted, only that it is not there.
            await self._showing.drop(name, keep=True)
        self._showing.take_brokers(broker_rows(nodes.brokers))
        return {**await self._showing.show([topic.row.name for topic in self._topics]), **nodes.unreadable}

    async def _apply(self, delta: Delta, failed: Iterable[str]) -> Failures:
        changed, gone = self._topics.apply(delta)
        if delta.controller_epoch != NO_EPOCH:
            self._showing.take_controller(delta.controller)
        if delta.brokers is not None:
            self._showing.take_brokers(delta.brokers)
        for name in gone:
            await self._showing.drop(name)
        return await self._showing.show({**changed, **dict.fromkeys(failed)})


async def connected(store: Store) -> None:
    """Until it can be reached; whoever fails to reach it at once calls it again, so it takes a moment at least."""
    if store.session_state is SessionState.CONNECTED:
        # It failed for a moment, or the loss of the connection is not told yet.
        await session_change(store, _RETRY_S)
    while store.session_state is not SessionState.CONNECTED:
        await session_change(store, None)


async def session_change(store: Store, timeout_s: float | None) -> None:
    """Until the state of the session is told anew, or for so long."""
    changed = asyncio.Event()
    unwatch = store.watch_session(lambda _: changed.set())
    try:
        async with asyncio.timeout(timeout_s):
            await changed.wait()
    except TimeoutError:
        return
    finally:
        unwatch()
