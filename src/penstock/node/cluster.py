"""A node's part in its cluster, put together: metadata, topics, membership, and the controller while in office."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from penstock.clock import Clock
from penstock.cluster.answering import Answering, FindLogEnd
from penstock.cluster.calls import Calls
from penstock.cluster.controller import ActiveController
from penstock.cluster.core.effects import AskLogEnds
from penstock.cluster.core.election import LogEnd
from penstock.cluster.core.events import BrokerFoundDead, BrokerStopping, LogEnds
from penstock.cluster.core.image import Image
from penstock.cluster.core.messages import Reply
from penstock.cluster.core.preferred import PreferredLeaderOptions
from penstock.cluster.deaths import Deaths
from penstock.cluster.departures import Departures
from penstock.cluster.isr_changes import IsrChanges, Standing
from penstock.cluster.member import Member
from penstock.cluster.metadata import Metadata
from penstock.cluster.operating import Operating
from penstock.cluster.operations import Operations
from penstock.cluster.partition_counts import PartitionCounts
from penstock.cluster.publishing import Publishing
from penstock.cluster.reading import TopicDefaults
from penstock.cluster.replica_sizes import ReplicaSizes
from penstock.cluster.topics import NewTopicDefaults, Topics
from penstock.cluster.upkeep import Upkeep
from penstock.config.address import Address
from penstock.config.settings import Settings
from penstock.coordination.controller_election import Office
from penstock.coordination.interface import SessionState, Store
from penstock.coordination.paths import Registration
from penstock.errors import PenstockError, Problem
from penstock.later import Later, gather
from penstock.node.last_stop import LastStop
from penstock.replication.giving_way import GivingWay
from penstock.rpc.core.unanswered import Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.storage.directories import PartitionDirectories

logger = logging.getLogger(__name__)

# A controller that has just begun reads the whole store first; one that does not come is a fault to be seen.
ADMISSION_TIMEOUT_S = 60
_SOON_S = 0.005
# Every controller reads every registration: beyond this many all topics are meant.
_MAX_UNSYNCED_TOPICS = 1_000

_NOT_ADMITTED = (
    f"the cluster's controller did not admit this broker within {ADMISSION_TIMEOUT_S} s: see its log, and that of the "
    "broker that is the controller"
)


class ClusterNode:
    """Built before anything is read; `joined` makes it a member."""

    def __init__(self, settings: Settings, store: Store, cluster_id: str, clock: Clock) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self.node_id = settings.node.node_id
        self.image = Image(cluster_id, self.node_id)
        self.metadata = Metadata(self.image, store, clock)
        self.partition_counts = PartitionCounts(store, self.metadata)
        self.peers = Peers(clock, self._lost)
        self.calls = Calls(self.peers, self.image)
        self._deaths = Deaths(self.image, self._dead, self._alive, clock)
        defaults = NewTopicDefaults(settings.topics.num_partitions, settings.topics.default_replication_factor)
        self.topics = Topics(store, self.image, defaults, self.calls)
        self.member = Member(store, self.node_id, self.metadata, self._take_office, self.calls.answers)
        # A controller that has the office but has not read the store yet.
        self._beginning: ActiveController | None = None
        self.member.when_session_lost(self._give_up_beginning)
        self.operations = Operations(self.image, self.topics, lambda: self.controller)
        self.sizes = ReplicaSizes(self.image, self.peers)
        self.operating = Operating(self.image, self.topics, self.operations, self.sizes, lambda: self.controller)
        self.isr_changes = IsrChanges(self._standing, self.calls)
        self.answering = Answering(self.member, self.metadata, self.topics, self._log_end)
        # Of this broker's replicas; set when there are any.
        self.find_log_end: FindLogEnd = _no_log_end
        # Clients may be on their way to the new leaders.
        self.has_handed_over = False
        self.metadata.when_brokers_change(self.calls.brokers_changed)
        self.metadata.when_brokers_change(Departures(self.image, clock).brokers_changed)

    @property
    def controller(self) -> ActiveController | None:
        """While this broker has the office."""
        controller = self.member.controller
        return None if controller is None or controller.is_over else controller

    @property
    def trouble(self) -> str | None:
        """Why this broker leads nothing, whatever the store says; for /health."""
        if self.metadata.refused is not None:
            return self.metadata.refused
        if failures := self.metadata.failures:
            return next(iter(failures.values()))
        if self.image.live_epochs.get(self.node_id) == self.member.broker_epoch:
            return None
        return "not admitted to the cluster: the session with the coordination store is over, or there is no controller"

    @asynccontextmanager
    async def joined(self, registration: Registration, giving_way: GivingWay) -> AsyncIterator[None]:
        """Registered, admitted and a candidate for the controller while the block lasts. What it leads, it leads when

        the block begins; what others can lead is theirs when it ends.
        """
        try:
            await self.member.start(registration)
            await self._admitted()
            yield
            await self._hand_over(giving_way)
            # Whoever takes the office next does not know that this broker is stopping: it must not be seen fetching.
            self.peers.close()
        finally:
            await self.member.close()
            self.peers.close()
            await self.metadata.close()

    async def _admitted(self) -> None:
        changed = asyncio.Event()
        self.metadata.when_brokers_change(changed.set)
        try:
            async with asyncio.timeout(ADMISSION_TIMEOUT_S):
                while self.image.live_epochs.get(self.node_id) != self.member.broker_epoch:
                    await changed.wait()
                    changed.clear()
                await self.metadata.settled().wait()
        except TimeoutError:
            raise PenstockError(Problem.STORE_UNAVAILABLE, _NOT_ADMITTED) from None

    async def _hand_over(self, giving_way: GivingWay) -> None:
        """Others lead what this broker led, as far as they can, before it stops to serve; within bounds."""
        timeout_ms = self._settings.controller.controlled_shutdown_ms
        led = self._led()
        if timeout_ms == 0 or self.image.live_epochs.keys() <= {self.node_id}:
            return
        if self.controller is not None and self._store.session_state is not SessionState.CONNECTED:
            # Nobody could write down who leads instead.
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await giving_way.begin(timeout_ms)
                while (refused := (reply := await self._stop_leading(timeout_ms)).refusal) is not None:
                    giving_way.end()
                    logger.warning("node.stop.not.handed.over", extra={"why": refused.text})
                    if refused.problem is Problem.STALE_BROKER_EPOCH:
                        return
                    await asyncio.sleep(0.1)
                    await giving_way.begin(timeout_ms)
                if (controller := self.controller) is not None:
                    await controller.publisher.told().wait()
                await self.metadata.settled().wait()
                while reply.numbers and self._led() > reply.numbers[0]:
                    # The controller's word of it may come behind its answer. Clients are told by whoever knows.
                    await asyncio.sleep(_SOON_S)
                self.has_handed_over = led > 0
        except TimeoutError:
            logger.warning("node.stop.not.handed.over", extra={"why": f"it took longer than {timeout_ms} ms"})
        finally:
            giving_way.end()

    def _led(self) -> int:
        return sum(row.leader == self.node_id for topic in self.image.topics() for row in topic.partitions)

    async def _stop_leading(self, timeout_ms: int) -> Reply:
        epoch, controller = self.member.broker_epoch, self.controller
        if controller is None:
            return await self.calls.stopping(self.node_id, epoch, timeout_ms).wait()
        answer = await controller.ask(lambda request_id: BrokerStopping(request_id, self.node_id, epoch)).wait()
        return Reply() if answer.refusal is None else Reply.refused(answer.refusal)

    # Office

    async def _take_office(self, office: Office) -> ActiveController:
        publishing = Publishing(self.node_id, office.epoch, self.metadata, self.calls.push, self._clock)
        options = PreferredLeaderOptions(self._settings.controller.auto_leader_rebalance_enable)
        defaults = TopicDefaults(self._settings.log, self._settings.topic_replication)
        controller = ActiveController(self._store, office, publishing, defaults, options, self._clock)
        publishing.when_deposed = controller.doubt
        controller.when_over(publishing.close)
        controller.when_asked = partial(self._ask_log_ends, controller)
        self._beginning = controller
        try:
            nodes = await controller.start()
            for node_id, broker_epoch in self._deaths.found.items():
                controller.tell(BrokerFoundDead(node_id, broker_epoch))
            await self.topics.take_office(controller, nodes.unfinished)
        except PenstockError:
            # It is gone for good: whoever tries again makes another, and two would decide beside each other.
            if controller.is_over:
                return controller
            raise
        else:
            Upkeep(controller, self.image, self.topics, self.operations, self._clock)
            self._beginning = None
            return controller
        finally:
            self._give_up_beginning()

    def _give_up_beginning(self) -> None:
        controller, self._beginning = self._beginning, None
        if controller is not None:
            controller.close()

    def _standing(self) -> Standing:
        return Standing(self.node_id, self.member.broker_epoch, self.controller)

    # Other brokers

    def _lost(self, node_id: int, purpose: Purpose, why: Unanswered) -> None:
        self._deaths.lost(self.peers, node_id, purpose, why)

    def _dead(self, node_id: int, broker_epoch: int) -> None:
        if (controller := self.controller) is not None:
            controller.tell(BrokerFoundDead(node_id, broker_epoch))
        self.member.broker_died(node_id, broker_epoch)

    def _alive(self, node_id: int) -> None:
        """A connection that ended for other reasons, such as idleness: the next one's end must say something too."""
        if node_id == self.image.controller_id or self.controller is not None:
            self.calls.greet(node_id)

    def _log_end(self, topic: str, partition: int) -> LogEnd | None:
        return self.find_log_end(topic, partition)

    def _ask_log_ends(self, controller: ActiveController, question: AskLogEnds) -> None:
        key = question.partition

        def own() -> Later[Reply]:
            end = self._log_end(*key)
            return Later.of(Reply("UNKNOWN") if end is None else Reply(numbers=(*end, self.member.broker_epoch)))

        brokers = list(question.brokers)
        asked = [own() if broker == self.node_id else self.calls.log_end(broker, *key) for broker in brokers]

        def answered(done: Later[list[Reply]]) -> None:
            replies = dict(zip(brokers, done.result(), strict=True))
            ends = {
                broker: (reply.numbers[2], LogEnd(*reply.numbers[:2]))
                for broker, reply in replies.items()
                if not reply.problem
            }
            controller.tell(LogEnds(key, ends))

        gather(asked).when_done(answered)


def _no_log_end(topic: str, partition: int) -> LogEnd | None:
    return None


def registration_of(
    settings: Settings, kafka: Address, directory_id: UUID, last_stop: LastStop, directories: PartitionDirectories
) -> Registration:
    """Without a host of its own a lone broker is where the client reached it; others need to be told where it is."""
    advertised, machine = settings.network.advertised_listener, platform.node()
    host, port = advertised.host, advertised.port
    if not host and not settings.coordination.coordination.is_embedded:
        host, port = (machine if kafka.host in ("0.0.0.0", "::") else kafka.host), kafka.port
    rack, clean, unsynced = settings.node.rack or None, last_stop.was_clean, last_stop.was_unsynced
    topics = () if clean or unsynced else tuple(directories.unsynced_topics())
    if len(topics) > _MAX_UNSYNCED_TOPICS:
        unsynced, topics = True, ()
    return Registration(host, port, machine, rack, directory_id, clean, unsynced, topics)
